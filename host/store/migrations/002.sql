-- What a domain has agreed with its neighbours: rows of a machine, as JSON, by a name of theirs.
CREATE TABLE peer (
    name TEXT PRIMARY KEY,
    json TEXT NOT NULL
);
