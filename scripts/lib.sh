# shellcheck shell=bash
# Functions for the other scripts, which source this file.

# say prints a heading and notes when its section began, for took and the table of .ci/run.
section=
section_began=0
say() {
	took
	section=$* section_began=$SECONDS
	printf '\n== %s\n' "$*"
}

# took ends the section, and appends its seconds to the file that SEQD_TEST_TIMINGS names, if any.
took() {
	[ -n "$section" ] || return 0
	[ -z "${SEQD_TEST_TIMINGS:-}" ] ||
		printf '%s\t%s\t%s\n' $((SECONDS - section_began)) "${0##*/}" "$section" >>"$SEQD_TEST_TIMINGS"
	section=
}

# die ends the script with a message.
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# beside FUNCTION starts a function beside what follows. await_beside waits for the end of all such
# functions, prints what they have written, and fails if one failed. end_beside ends them; a script
# that uses them calls it at its end. Their output is in the folder $work.
running=()
beside() {
	set -m # a process group, so that it can be ended
	{ section='' && "$1"; } >"$work/beside.${#running[@]}" 2>&1 </dev/null &
	running+=($!)
	set +m
}
await_beside() {
	local i failed=0
	for i in "${!running[@]}"; do
		wait "${running[$i]}" || failed=1
		cat "$work/beside.$i"
	done
	running=()
	return "$failed"
}
end_beside() {
	local group
	for group in "${running[@]}"; do
		kill -- "-$group" 2>/dev/null || true
	done
}

# need COMMAND PACKAGE... installs the Debian packages if a command does not exist. Debian keeps
# servers outside the PATH of ordinary users.
need() {
	local command=$1
	shift
	found "$command" && return
	local sudo=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null ||
			die "$command is missing, and there is no sudo to install it; install the Debian packages: $*"
		sudo=(sudo)
	fi
	command -v apt-get >/dev/null ||
		die "$command is missing, and there is no apt-get to install it; install what Debian calls: $*"
	(
		lock=${XDG_CACHE_HOME:-$HOME/.cache}/seqd/need.lock
		mkdir -p "${lock%/*}"
		exec 9>"$lock" # another script may install
		flock 9
		! found "$command" || exit 0
		printf '\n== install %s\n' "$*"
		"${sudo[@]}" apt-get update -qq ||
			die "$command is missing, and apt-get update failed; install the Debian packages: $*"
		install_idle "$@" || die "$command is missing, and apt-get could not install the packages: $*"
	) || exit
}
# found COMMAND reports whether a command or server exists.
found() {
	PATH=$PATH:$(printf '%s:' /usr/sbin /usr/lib/postgresql/*/bin) command -v "$1" >/dev/null
}

# install_idle PACKAGE... installs Debian packages and does not start their services: tests start
# servers of their own. The command that becomes root is in the array sudo.
install_idle() (
	policy=/usr/sbin/policy-rc.d # Debian's way to say so; 101 means "not allowed"
	if [ ! -e "$policy" ]; then
		trap '"${sudo[@]}" rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
		"${sudo[@]}" chmod 755 "$policy"
	fi
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "$@" >/dev/null
)

# need_servers installs the servers that the tests of integration/ start, and jq, which the handbook uses.
need_servers() {
	need redis-server redis-server
	need postgres postgresql
	need pgbouncer pgbouncer
	need mariadbd mariadb-server
	need jq jq
}

# fetch PACKAGE FOLDER unpacks a Debian package into FOLDER/files.
fetch() (
	cd "$2" || exit
	get() { apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$1"; }
	{ get "$1" || { [ "$(id -u)" -eq 0 ] && apt-get update -qq && get "$1"; }; } >&2 &&
		dpkg-deb --extract ./*.deb files
)

# unpacked PACKAGE prints the folder that holds the files of a Debian package. The package is
# downloaded once and not installed, so none of its services start.
unpacked() {
	local folder=${XDG_CACHE_HOME:-$HOME/.cache}/seqd/$1
	if [ ! -d "$folder" ]; then
		command -v apt-get >/dev/null ||
			die "the Debian package $1 is needed, and there is no apt-get to download it"
		local fresh
		fresh=$(mktemp -d)
		fetch "$1" "$fresh" || die "apt-get could not download the Debian package $1"
		mkdir -p "${folder%/*}"
		mv "$fresh/files" "$folder"
		rm -rf "$fresh"
	fi
	echo "$folder"
}

# as_root is the prefix of commands that mount file systems: nothing for root, otherwise a user
# namespace.
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	as_root=(unshare --user --map-root-user --mount)
fi
need_mounts() {
	[ "$(id -u)" -ne 0 ] || return 0
	need unshare util-linux
	"${as_root[@]}" true 2>/dev/null ||
		die "some tests mount file systems: run this as root, or allow user namespaces"
}

# build_binaries builds the programs that tests run as processes, once for all of them, unless
# another script has done so. The caller removes $binaries at its end.
binaries=
build_binaries() {
	[ -z "${SEQD_TEST_BINARIES:-}" ] || return 0
	binaries=$(mktemp -d)
	go build -o "$binaries/" ./cmd/seqd
	scripts/standin "$binaries/mongostandin"
	# Go's cache keeps these two, which render deploy/helm and deploy/k8s.
	go tool -n -modfile=scripts/tools/kube/go.mod helm >/dev/null
	go tool -n -modfile=scripts/tools/kube/go.mod kustomize >/dev/null
	export SEQD_TEST_BINARIES=$binaries
}

# need_laboratory STORE REDIS installs what the laboratory needs for a topology of scripts/chaos.
need_laboratory() {
	need ip iproute2
	need iptables iptables
	[ "$2" = none ] || need redis-server redis-server
	case $1 in
	postgres) need postgres postgresql && need setpriv util-linux ;;
	mysql) need mariadbd mariadb-server ;;
	esac
}

# build_laboratory FOLDER OPTION... builds the laboratory, and with these options its seqd.
build_laboratory() {
	go -C integration build -o "$1/chaos" ./cmd/chaos &&
		CGO_ENABLED=0 go build "${@:2}" -o "$1/seqd" ./internal/testing/clockseqd
}

# build_standin FOLDER puts the MongoDB stand-in there, which another script may have built.
build_standin() {
	if [ -n "${SEQD_TEST_BINARIES:-}" ]; then
		ln -s "$SEQD_TEST_BINARIES/mongostandin" "$1/"
	else
		scripts/standin "$1/mongostandin"
	fi
}

# What Go compiles depends on the folder that it is in, unless -trimpath is set. With it, a fresh clone
# takes from Go's cache what another clone has compiled.
[[ ${GOFLAGS:-} == *-trimpath* ]] || export GOFLAGS="-trimpath ${GOFLAGS:-}"

# go test runs with these options. The linters have vetted everything, and no debugger looks at the
# tests.
fast=(-vet=off -ldflags=-s -count=1)

# A program with the race detector sleeps for a second before it exits, so that other threads can
# end their reports. There are so many such programs that this would take minutes.
export GORACE="atexit_sleep_ms=100 ${GORACE:-}"

# differing prints the packages of the main module that do more in a long run: their tests use
# internal/testing/longtest, themselves or by what they import.
differing() {
	go list -test -tags integration -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... |
		awk '/\.test .*\/internal\/testing\/longtest( |$)/ {sub(/\.test$/, "", $1); print $1}'
}

# allocating prints the packages of the main module with tests of what allocates.
allocating() {
	grep -rlE '^func Test\w*Alloc' --include='*_test.go' --exclude-dir={bench,client,integration} . |
		xargs -n 1 dirname | sort -u | xargs go list
}

# in_process prints the packages of integration/ whose tests run concurrent code of seqd themselves.
# The tests of the others run it as processes.
in_process() {
	go -C integration list ./client ./cursor ./idempotency ./ratelimit ./snowflake ./store
}

# pure prints the packages whose tests have no concurrency. The race detector would only slow them
# down.
pure() {
	go list ./command/clitool ./command/imports ./deploy ./internal/commanddoc ./internal/configdoc ./internal/docstest ./internal/glob \
		./internal/sabotage ./internal/testing/ordercheck ./internal/version ./plugin/format ./plugin/obfuscate ./server/config \
		./server/openapi ./strategy/gapless/ledger ./strategy/segment/cursor ./strategy/segment/storetake
}

command -v go >/dev/null || die "Go is missing; install Go 1.26 or later: https://go.dev/dl"
