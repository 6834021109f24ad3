#!/bin/sh
# Creates the database and the user of seqd. The image of MariaDB runs it at the first start.
# SEQD_PASSWORD is the password of the user: letters and digits.
set -eu
export MYSQL_PWD="$MARIADB_ROOT_PASSWORD"
mariadb --user root <<END
CREATE DATABASE seqd CHARACTER SET utf8mb4;
CREATE USER seqd@'%' IDENTIFIED BY '$SEQD_PASSWORD';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON seqd.* TO seqd@'%';
END
