# shellcheck shell=bash
# What the scripts share; sourced, not run.

# say prints a heading.
say() { printf '\n== %s\n' "$*"; }

# die ends the script with a message.
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# need COMMAND PACKAGE... makes sure a command is there and installs the Debian packages when it is not.
need() {
	local command=$1
	shift
	command -v "$command" >/dev/null && return
	local sudo=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || die "$command is missing; install the packages $* (this user may not)"
		sudo=(sudo)
	fi
	command -v apt-get >/dev/null || die "$command is missing and there is no apt-get; install what Debian calls $*"
	say "install $*"
	"${sudo[@]}" apt-get update -qq || die "apt-get update failed; $command is missing (packages $*)"
	DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
		die "the packages $* cannot be installed; $command is missing"
}

# fetch PACKAGE FOLDER unpacks a Debian package into FOLDER/files.
fetch() (
	cd "$2" || exit
	get() { apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$1"; }
	{ get "$1" || { [ "$(id -u)" -eq 0 ] && apt-get update -qq && get "$1"; }; } >&2 &&
		dpkg-deb --extract ./*.deb files
)

# unpacked PACKAGE prints the folder that holds the files of a Debian package, which is fetched once and not installed: nothing of it is started.
unpacked() {
	local folder=${XDG_CACHE_HOME:-$HOME/.cache}/seqd/$1
	if [ ! -d "$folder" ]; then
		command -v apt-get >/dev/null || die "the files of Debian's package $1 are needed, and there is no apt-get"
		local fresh
		fresh=$(mktemp -d)
		fetch "$1" "$fresh" || die "Debian's package $1 cannot be fetched"
		mkdir -p "${folder%/*}"
		mv "$fresh/files" "$folder"
		rm -rf "$fresh"
	fi
	echo "$folder"
}

command -v go >/dev/null || die "Go is missing; install Go 1.26 or later"
