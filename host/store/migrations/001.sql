-- What a domain keeps. Every statement is understood by SQLite and by PostgreSQL.
-- Times are ms since 1970, rates bit/s. BIGINT throughout, as an INTEGER of PostgreSQL has 32 bits.

-- The one row that every writer changes first: it is lock, fence and counter.
CREATE TABLE domain_state (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    fence BIGINT NOT NULL,
    leader TEXT,
    lease_until_ms BIGINT NOT NULL,
    group_number BIGINT NOT NULL,
    audit_seq BIGINT NOT NULL,
    feed_seq BIGINT NOT NULL,
    last_reservation BIGINT NOT NULL,
    edition BIGINT NOT NULL
);
INSERT INTO domain_state VALUES (1, 0, NULL, 0, -1, 0, 0, 0, 0);

-- Terms of leaders that are over, each with the last group that was written in it.
CREATE TABLE term (
    fence BIGINT PRIMARY KEY,
    leader TEXT,
    ended_ms BIGINT NOT NULL,
    group_number BIGINT NOT NULL
);

CREATE TABLE node (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    cert_sha256 TEXT,
    epoch BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL
);

CREATE TABLE link (
    id BIGINT PRIMARY KEY,
    node TEXT NOT NULL,
    port TEXT NOT NULL,
    to_node TEXT NOT NULL
);

CREATE TABLE capacity (
    link BIGINT NOT NULL,
    class TEXT NOT NULL,
    bps BIGINT NOT NULL CHECK (bps >= 0),
    reserved BIGINT NOT NULL CHECK (reserved >= 0),
    short BIGINT NOT NULL CHECK (short = 0 OR short = 1),
    PRIMARY KEY (link, class),
    CHECK (reserved <= bps OR short = 1)
);

CREATE TABLE path (
    id BIGINT PRIMARY KEY,
    from_node TEXT NOT NULL,
    to_node TEXT NOT NULL
);

CREATE TABLE path_link (
    path BIGINT NOT NULL,
    position BIGINT NOT NULL,
    link BIGINT NOT NULL,
    PRIMARY KEY (path, position)
);

CREATE TABLE client (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    cert_sha256 TEXT,
    token_sha256 TEXT,
    role TEXT NOT NULL,
    most_bps BIGINT,
    most_count BIGINT,
    per_second BIGINT
);

CREATE TABLE reservation (
    id BIGINT PRIMARY KEY,
    owner TEXT NOT NULL,
    idem TEXT NOT NULL,
    digest TEXT NOT NULL,
    kind TEXT NOT NULL,
    twin BIGINT,
    path BIGINT NOT NULL,
    class TEXT NOT NULL,
    bps BIGINT NOT NULL,
    floor_bps BIGINT,
    priority BIGINT NOT NULL,
    state TEXT NOT NULL,
    peer_handle TEXT,
    flow TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    UNIQUE (owner, idem)
);

CREATE TABLE audit (
    seq BIGINT PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    subject TEXT NOT NULL,
    refused TEXT,
    detail TEXT NOT NULL
);

CREATE TABLE change_feed (
    seq BIGINT PRIMARY KEY,
    router TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    op TEXT NOT NULL,
    spec TEXT NOT NULL
);

CREATE TABLE edition (
    n BIGINT PRIMARY KEY,
    parent BIGINT,
    author TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    reason TEXT NOT NULL,
    state TEXT NOT NULL,
    confirm_by_ms BIGINT,
    sha256 TEXT NOT NULL
);

CREATE TABLE policy (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    edition BIGINT NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (kind, name, edition)
);

CREATE TABLE session (
    subscriber TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    router TEXT NOT NULL,
    port TEXT NOT NULL,
    address TEXT NOT NULL,
    moves BIGINT NOT NULL,
    leaving TEXT,
    source TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    octets_in BIGINT NOT NULL,
    octets_out BIGINT NOT NULL,
    packets_in BIGINT NOT NULL,
    packets_out BIGINT NOT NULL
);

CREATE TABLE router_status (
    router TEXT PRIMARY KEY,
    seq_applied BIGINT NOT NULL,
    edition BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    drift TEXT NOT NULL,
    quarantined TEXT NOT NULL,
    last_error TEXT,
    reported_ms BIGINT NOT NULL
);
