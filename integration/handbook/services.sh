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
			[ "$1" != kill ] && kill -TERM "$pid" 2>/dev/null || kill -KILL "$pid" 2>/dev/null
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
	while ! curl "$SCHEME${!addr}/readyz" | grep -qE '"(ready|degraded)"'; do
		kill -0 "$(cat "pid-$1")" 2>/dev/null || return 1
		sleep 0.05
	done
}

redis-cli() { command redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }

# authority makes a certificate authority, and pair NAME DAYS a certificate of it, NAME.crt, and its key, NAME.key.
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 100 -subj /CN=authority \
		-keyout authority.key -out authority.crt 2>/dev/null
}
pair() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=seqd -keyout "$1.key" 2>/dev/null |
		openssl x509 -req -days "$2" -CA authority.crt -CAkey authority.key -CAcreateserial -out "$1.crt" \
			-extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1) 2>/dev/null
}
