# What the pages of the handbook use of a machine: services of systemd, its log, and ssh. NODES has
# the names of the nodes, and the variable ADDR_… the address of each.

# With ssh, one node; otherwise all of them.
ssh() { (NODE=$1 && shift && eval "$*"); }
sudo() { [ "$1" != -u ] || shift 2; "$@"; }
journalctl() { cat log-*; }
curl() { command curl --silent --max-time 120 "$@"; }

systemctl() {
	local node pid
	for node in ${NODE:-$NODES}; do
		case $1 in
		stop | restart | kill)
			pid=$(cat "pid-$node")
			[ "$1" != kill ] && kill -TERM "$pid" || kill -KILL "$pid"
			while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
			;;&
		reload) kill -HUP "$(cat "pid-$node")" ;;
		start | restart) launch "$node" || return ;;
		esac
	done
}

# launch starts a node, and waits until it knows whether it can issue. An operator is slower.
launch() {
	local addr=ADDR_${1//-/_}
	SEQD_SERVER_ADDR=${!addr} seqd --config seqd.yaml >>"log-$1" 2>&1 &
	echo $! >"pid-$1"
	while ! curl "${!addr}/readyz" | grep -qE '"(ready|degraded)"'; do
		kill -0 "$(cat "pid-$1")" 2>/dev/null || return 1
		sleep 0.05
	done
}

redis-cli() { command redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }
