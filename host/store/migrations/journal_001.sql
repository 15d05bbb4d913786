CREATE TABLE journal (
    name TEXT PRIMARY KEY,
    seq BIGINT NOT NULL,
    json TEXT NOT NULL
);
CREATE TABLE journal_state (one BIGINT PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL);
INSERT INTO journal_state VALUES (1, 0);
