-- The tables of seqd in PostgreSQL 13 or newer, schema version 1. seqd creates them at start if its
-- user has the right CREATE on the schema. Otherwise an operator runs this file once, and grants
-- SELECT, INSERT, UPDATE and DELETE on the tables. It can be run again.
--
-- Names, keys and bodies are bytes, because they may contain any character:
--     SELECT convert_from(name, 'UTF8'), highest FROM seqd_counters;

-- The counters that ranges of numbers are allocated from. Their rows change all the time and no
-- index changes with them, so pages with free space keep the table small (HOT).
CREATE TABLE IF NOT EXISTS seqd_counters (
    name    bytea   PRIMARY KEY,
    version integer NOT NULL CHECK (version > 0),
    -- the highest number that ever left the store
    highest bigint  NOT NULL CHECK (highest BETWEEN 0 AND 9007199254740991),
    -- the size of the last range that was needed, and when, in ms since 1970
    step    bigint  NOT NULL CHECK (step BETWEEN 1 AND 9007199254740991),
    step_at bigint  NOT NULL,
    -- who sequences the counter: '' nobody, 'store', or the epoch of a cursor in Redis
    epoch   text    COLLATE "C" NOT NULL,
    -- the server that wrote the row last: its system identifier and timeline
    fence   text    COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Definitions, tokens, answers to requests with an Idempotency-Key and other texts with a revision.
CREATE TABLE IF NOT EXISTS seqd_documents (
    kind       text    COLLATE "C" NOT NULL,
    name       bytea   NOT NULL,
    version    integer NOT NULL CHECK (version > 0),
    revision   bigint  NOT NULL CHECK (revision > 0),
    body       bytea   NOT NULL,
    written_at bigint  NOT NULL,
    -- when the row may be purged, in ms since 1970; 0 for never
    expires_at bigint  NOT NULL CHECK (expires_at >= 0),
    PRIMARY KEY (kind, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX IF NOT EXISTS seqd_documents_expiry ON seqd_documents (kind, expires_at) WHERE expires_at > 0;

-- Who holds which machine ID. The row with id -1 is what all leases of a registry rest on.
CREATE TABLE IF NOT EXISTS seqd_slots (
    registry bytea   NOT NULL,
    id       integer NOT NULL CHECK (id BETWEEN -1 AND 65535),
    body     bytea   NOT NULL,
    PRIMARY KEY (registry, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What was issued to whom. The ID begins with the biz type and the time.
CREATE TABLE IF NOT EXISTS seqd_history (
    id   bytea PRIMARY KEY,
    body bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- The version of the tables, the last failover that an operator confirmed, and the fence under which
-- the tables were created.
CREATE TABLE IF NOT EXISTS seqd_schema (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL CHECK (version > 0),
    fence   text    COLLATE "C" NOT NULL,
    origin  text    COLLATE "C" NOT NULL
);

INSERT INTO seqd_schema (version, fence, origin)
SELECT 1, present, present
FROM (SELECT system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS present
      FROM pg_control_system()) f
ON CONFLICT DO NOTHING;
