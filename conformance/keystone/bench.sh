#!/usr/bin/env bash
# Starts a real Keystone on loopback, and compares it with this program:
# "ostiary-bench keystone" on both, with the arguments of this script. ROUNDS is the cost of
# password hashes, 12 by default. It needs MariaDB and PyPI.
set -uo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work rounds=${ROUNDS:-12}
mkdir -p "$work"
. ./start.sh
if ! install keystone-venv requirements-keystone.txt uwsgi; then
	cat "$work/keystone-venv.pip"
	exit 1
fi
(cd "$root" && go build -buildvcs=auto -o "$work/" ./cmd/ostiary ./cmd/ostiary-bench) || exit 1
port=$(free)
start_real "$work/bench" "$port" "$rounds" mariadb ""
if ! grep -q '^ready' "$work/bench.ready"; then
	cat "$work/bench.ready" "$work/bench.err"
	exit 1
fi
OS_PASSWORD=secret "$work/ostiary-bench" keystone --rounds "$rounds" --target serve --target "http://127.0.0.1:$port" \
	--peer-name keystone --peer-version 30.0.0 --peer-store mariadb --peer-pid "$(cat "$work/bench/uwsgi.pid")" "$@"
status=$?
exec 7>&-
wait
exit $status
