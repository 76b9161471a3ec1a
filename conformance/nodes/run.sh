#!/usr/bin/env bash
# Plays on three nodes over one log: clients while nodes are killed, paused and cut off,
# the scripts of doors, and suites of other projects through a proxy that sends each request
# to the next node. It needs PostgreSQL, which root installs, except with LOG=raft.
# Arguments select parts; README.md lists them. The last line counts the parts. With "kills" as the first argument,
# suites and scripts play on nodes that keep the log themselves, and the node that writes is
# killed every so often.
set -uo pipefail
cd "$(dirname "$0")"
. ../needs.sh
if [ "${1:-}" = kills ]; then
	shift
	[ $# -gt 0 ] || set -- openfga permify keystone tempest scripts
	export LOG=raft OSTIARY_KILL_EVERY=${OSTIARY_KILL_EVERY:-20s}
fi
[ $# -gt 0 ] || set -- play upgrade scripts openfga permify keystone
case ${LOG:-} in
raft) ;;
mariadb) need $# mariadbd ;;
galera) need $# mariadbd wsrep_sst_rsync libgalera_smm.so rsync lsof ;;
*) need $# postgres ;;
esac
cd ../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/ostiary" ./cmd/ostiary && go test -c -o "$work/fleet.test" ./internal/workshop/fleet || exit 1
export OSTIARY_BIN=$work/ostiary OSTIARY_PLAY_LOG=${LOG:-postgres}
passed=0 failed=0 failures=

# part NAME VARIABLE TEST plays a test of internal/workshop/fleet with a variable.
part() {
	local begin=$SECONDS
	if (cd internal/workshop/fleet && env "$2" "$work/fleet.test" -test.run "$3" -test.v -test.timeout 20m) >"$work/$1.log" 2>&1; then
		passed=$((passed + 1))
		echo "$1: passed ($((SECONDS - begin)) s)"
	else
		failed=$((failed + 1)) failures="$failures $1"
		echo "$1: failed ($((SECONDS - begin)) s)"
	fi
	grep -h "calls in\|requests, \|^ok\|passed, " "$work/$1.log" | cut -c1-400
}

for name in "$@"; do
	case $name in
	play) part play OSTIARY_PLAY="${FOR:-2m}" '^TestPlay$' ;;
	upgrade) part upgrade OSTIARY_PLAY=1s '^TestUpgrade$' ;;
	# A script takes a second.
	scripts) OSTIARY_KILL_EVERY=${OSTIARY_KILL_EVERY:+100ms} part scripts OSTIARY_SCRIPTS='xacml/testdata/[defnpu]*.http permify/testdata/*.http' '^TestScripts$' ;;
	*) part "$name" OSTIARY_SUITES="$name" '^TestSuites$' ;;
	esac
done
# .ci/run repeats what is between these lines.
[ "$failed" = 0 ] || echo "failed tests:$failures"
for name in $failures; do tail -n 60 "$work/$name.log"; done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
