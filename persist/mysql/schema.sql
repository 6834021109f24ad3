-- The tables of seqd, schema version 1. seqd creates them when it starts. If its user may not
-- create tables, an operator runs this file in the database first. It can be run again.
--
-- Names, keys and texts are bytes: any character is allowed, and they are compared as bytes.

CREATE TABLE IF NOT EXISTS seqd_schema (
	id TINYINT NOT NULL PRIMARY KEY,
	version INT NOT NULL,
	-- the fence of the last failover that an operator confirmed, and that of these statements
	fence VARBINARY(255) NOT NULL,
	origin VARBINARY(255) NOT NULL,
	-- the server that takes the writes, and how often another one began to
	writer VARBINARY(255) NOT NULL,
	generation INT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS seqd_counters (
	name VARBINARY(1024) NOT NULL PRIMARY KEY,
	version INT NOT NULL,
	highest BIGINT NOT NULL,
	step BIGINT NOT NULL,
	step_at BIGINT NOT NULL,
	epoch VARBINARY(32) NOT NULL,
	fence VARBINARY(255) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS seqd_documents (
	kind VARBINARY(32) NOT NULL,
	name VARBINARY(512) NOT NULL,
	version INT NOT NULL,
	revision BIGINT NOT NULL,
	body MEDIUMBLOB NOT NULL,
	written_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	PRIMARY KEY (kind, name),
	KEY seqd_documents_expiry (kind, expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS seqd_slots (
	registry VARBINARY(1024) NOT NULL,
	id INT NOT NULL,
	body MEDIUMBLOB NOT NULL,
	PRIMARY KEY (registry, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS seqd_history (
	id VARBINARY(1024) NOT NULL PRIMARY KEY,
	body MEDIUMBLOB NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

-- The writer is the identity of this server: server_uuid on MySQL, which MariaDB does not have. A
-- fence is a writer and its generation.
INSERT INTO seqd_schema (id, version, fence, origin, writer, generation)
SELECT 1, 1, CONCAT(writer, '/1'), CONCAT(writer, '/1'), writer, 1
FROM (SELECT /*!80000 @@GLOBAL.server_uuid */ /*M!100600 CONCAT_WS('/', @@GLOBAL.server_id, @@GLOBAL.hostname, @@GLOBAL.port) */ AS writer) s
ON DUPLICATE KEY UPDATE version = GREATEST(seqd_schema.version, 1);
