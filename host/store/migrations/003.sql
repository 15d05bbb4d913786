-- Sessions of subscribers as they are kept since policies are: what nobody looks for is JSON. No row was written before.
DROP TABLE session;
CREATE TABLE session (
    subscriber TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    router TEXT NOT NULL,
    port TEXT NOT NULL,
    moves BIGINT NOT NULL,
    source TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    octets BIGINT NOT NULL,
    spec TEXT NOT NULL
);

-- What subscribers have used of a quota, over all of their sessions.
CREATE TABLE usage (
    subscriber TEXT PRIMARY KEY,
    since_ms BIGINT NOT NULL,
    octets BIGINT NOT NULL
);

-- An agent that was away reads what is of its router alone.
CREATE INDEX change_feed_of_router ON change_feed (router, seq);
