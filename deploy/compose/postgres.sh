#!/bin/sh
# Creates the database and the user of seqd. The image of PostgreSQL runs it at the first start.
# SEQD_PASSWORD is the password of the user: letters and digits.
set -eu
psql --username "${POSTGRES_USER:-postgres}" --dbname postgres --set ON_ERROR_STOP=1 <<'END'
\set password `printf %s "$SEQD_PASSWORD"`
CREATE ROLE seqd LOGIN PASSWORD :'password';
CREATE DATABASE seqd OWNER seqd;
REVOKE ALL ON DATABASE seqd FROM PUBLIC;
END
