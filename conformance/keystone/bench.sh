#!/usr/bin/env bash
# Starts a real Keystone on loopback, and compares it with this program: "ostiary
# bench keystone" on both, with the arguments of this script. ROUNDS is the cost of
# password hashes, 12 by default. It needs MariaDB and PyPI.
set -uo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work rounds=${ROUNDS:-12}
mkdir -p "$work"
if [ ! -x "$work/keystone-venv/bin/uwsgi" ]; then
	python3 -m venv "$work/keystone-venv" && "$work/keystone-venv/bin/pip" install -q -r requirements-keystone.txt || exit 1
fi
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary) || exit 1
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
rm -rf "$work/bench" "$work/bench.hold"
mkfifo "$work/bench.hold"
bash real.sh "$work/keystone-venv" "$work/bench" "$port" "$rounds" <"$work/bench.hold" >"$work/bench.ready" &
exec 7>"$work/bench.hold"
for _ in $(seq 1800); do
	grep -q '^ready' "$work/bench.ready" && break
	kill -0 $! 2>/dev/null || exit 1
	sleep 0.1
done
OS_PASSWORD=secret "$work/ostiary" bench keystone --rounds "$rounds" --target serve --target "http://127.0.0.1:$port" \
	--peer-name keystone --peer-version 30.0.0 --peer-store mariadb --peer-pid "$(cat "$work/bench/uwsgi.pid")" "$@"
status=$?
exec 7>&-
wait
exit $status
