# Functions of the run.sh of each part, which reads this file from its folder.

part=conformance/$(basename "$PWD")
installer=$PWD/../../internal/workshop/bench/servers/install.sh

# program PROGRAM... installs programs that are missing. It fails with the reason if it
# cannot.
program() { bash "$installer" "$@"; }

# skip COUNT REASON ends the part, with COUNT skipped tests.
skip() {
	echo "skip $part: $2"
	echo "0 passed, 0 failed, $1 skipped"
	exit 0
}

# lacks COUNT REASON ends the part for want of a package that a registry has: its tests
# are skipped. With CI in the environment they fail.
lacks() {
	[ -n "${CI:-}" ] || skip "$1" "$2"
	echo "failed tests:"
	echo "$part was skipped, although a registry has what it needs: $2"
	echo "0 passed, $1 failed, 0 skipped"
	exit 1
}

# need COUNT PROGRAM... installs programs that are missing, and ends the part if it cannot.
need() {
	local count=$1 why
	shift
	why=$(program "$@") || lacks "$count" "$why"
}
