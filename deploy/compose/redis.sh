#!/bin/sh
# Starts a Redis server, or a Sentinel. It writes the configuration at the first start and keeps it
# on the volume, because Sentinels store the current primary in it.
#
#   redis.sh server NAME [PRIMARY]     a server called NAME, which replicates PRIMARY at first
#   redis.sh sentinel NAME PRIMARY     a Sentinel that watches PRIMARY at first
#
# REDISCLI_AUTH is the password of all servers, PORT the port to listen on, and REDIS_PORT that of
# the primary.
set -eu
kind=$1 name=$2 primary=${3-}
file=${FOLDER:-/data}/$kind.conf
umask 077
if [ ! -e "$file" ] && [ "$kind" = server ]; then
	cat >"$file" <<END
port ${PORT:-6379}
dir ${FOLDER:-/data}
requirepass $REDISCLI_AUTH
masterauth $REDISCLI_AUTH
replica-announce-ip $name
appendonly yes
# Cursors must not be evicted. If memory is full, writes fail.
maxmemory-policy noeviction
# Keep the replication ID when replicas come and go, because with a new one all cursors start again.
repl-backlog-ttl 0
END
	[ -z "$primary" ] || echo "replicaof $primary ${REDIS_PORT:-6379}" >>"$file"
elif [ ! -e "$file" ]; then
	cat >"$file" <<END
port ${PORT:-26379}
dir ${FOLDER:-/data}
requirepass $REDISCLI_AUTH
sentinel sentinel-pass $REDISCLI_AUTH
# Use names, because containers get other addresses when they are created again.
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $name
sentinel monitor seqd $primary ${REDIS_PORT:-6379} 2
sentinel auth-pass seqd $REDISCLI_AUTH
sentinel down-after-milliseconds seqd 5000
sentinel failover-timeout seqd 30000
END
fi

case $kind in
server) exec redis-server "$file" ;;
sentinel) exec redis-server "$file" --sentinel ;;
esac
