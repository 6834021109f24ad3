# shellcheck shell=bash
# Functions for the scripts that install clients of other languages. Versions are
# exact, and everything is installed once, into the user's cache. A script that sources this sources
# lib.sh first.

dependency_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/seqd/clients

# quiet COMMAND... runs a command. If it fails, quiet shows its output and ends the script.
quiet() {
	local output
	output=$("$@" 2>&1) || {
		printf '%s\n' "$output" >&2
		die "this failed: $*"
	}
}

# at_least NAME WANTED GOT compares main versions.
at_least() { [ "$3" -ge "$2" ] || die "$1 $2 or later is needed, and $1 $3 is here; install a later one"; }

# cached NAME COMMAND... prints the folder NAME in the cache. If it does not exist, COMMAND fills
# it; the folder is its last argument. NAME must identify the content.
cached() {
	local folder=$cache/$1 lock
	mkdir -p "$cache"
	exec {lock}>"$cache/lock" # another run may install
	flock "$lock"
	if [ ! -e "$folder/installed" ]; then
		echo "install $1" >&2
		rm -rf "$folder"
		mkdir "$folder"
		quiet "${@:2}" "$folder"
		touch "$folder/installed"
	fi
	exec {lock}>&-
	echo "$folder"
}
# digest FILE prints the first digits of a file's hash, for such a name.
digest() { sha256sum "$1" | cut -c1-12; }

# python_environment FOLDER prints the folder of a virtual environment with what
# FOLDER/requirements.txt lists.
python_environment() {
	need python3 python3 >&2
	python3 -c 'import ensurepip' 2>/dev/null || need python3-venv python3-venv >&2
	local version
	version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	at_least "Python 3, minor version" 11 "${version#3.}"
	cached "${1##*/}-$version-$(digest "$1/requirements.txt")" install_python "$1/requirements.txt"
}
# install_python REQUIREMENTS FOLDER makes a virtual environment.
install_python() {
	python3 -m venv "$2" && "$2/bin/pip" install --disable-pip-version-check --no-deps --requirement "$1"
}

# node_packages FOLDER prints the folder that has the node_modules of FOLDER/package.json.
node_packages() {
	need node nodejs >&2
	need npm npm >&2
	at_least Node 20 "$(node --version | sed 's/^v//; s/\..*//')"
	cached "${1##*/}-$(digest "$1/package.json")" install_npm "$1/package.json"
}
install_npm() {
	cp "$1" "$2" && (cd "$2" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts)
}

# need_browser installs chromium, and sets SEQD_TEST_AXE to the script of axe-core, which finds what
# keeps people from using a page.
need_browser() {
	need chromium chromium fonts-liberation
	need npm npm
	need flock util-linux
	local package=integration/console/package.json
	SEQD_TEST_AXE=$(cached "console-$(digest "$package")" install_npm "$package")/node_modules/axe-core/axe.min.js
	export SEQD_TEST_AXE
}

# need_java installs the compiler of Java and Maven.
need_java() {
	need javac openjdk-17-jdk-headless
	at_least Java 17 "$(javac -version 2>&1 | sed 's/^javac //; s/\..*//')"
	need mvn maven
}
# java_libraries FOLDER prints the folder that has the libraries of FOLDER/pom.xml.
java_libraries() {
	need_java >&2
	cached "${1##*/}-$(digest "$1/pom.xml")" install_java "$1/pom.xml"
}
install_java() { mvn --batch-mode --file "$1" "$dependency_plugin:copy-dependencies" "-DoutputDirectory=$2"; }
