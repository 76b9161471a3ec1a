#!/usr/bin/env bash
# Plays the native door with schemathesis, by the OpenAPI document that it
# serves. It needs python3 and curl, which root installs. What it fetches is in .work,
# which is ignored. Its last line counts the run.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work
mkdir -p "$work"
. ../needs.sh
need 1 python3 curl
if [ ! -x "$work/venv/bin/schemathesis" ]; then
	if ! { python3 -m venv "$work/venv" && timeout 600 "$work/venv/bin/pip" install -q -r requirements.txt; }; then
		lacks 1 "needs schemathesis of PyPI, which cannot be installed"
	fi
fi
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary)
rm -rf "$work/data"
: >"$work/log" # the loop below may read it before the server has made it
key=conformance-native-0123456789abcdef # the calls make keys, and the first one would close a server without any
printf '%s\n' "$key" >"$work/keys" && chmod 600 "$work/keys"
"$work/ostiary" serve --auth-keys-file "$work/keys" --data "$work/data" --http 127.0.0.1:0 --grpc off --metrics off >"$work/log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
at=
for _ in $(seq 600); do
	at=$(sed -n 's/^serving http //p' "$work/log")
	[ -n "$at" ] && break
	sleep 0.1
done
base=http://$at/ostiary/v1 store=01ARZ3NDEKTSV4RRFFQ69G5FAV
post() { curl -sSf -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d "$2" "$base$1" >/dev/null; }
post /stores "{\"name\":\"fixture\",\"id\":\"$store\"}"
for path in schemas write; do
	post "/stores/$store/$path" "$(curl -sSf -H "Authorization: Bearer $key" "$base/openapi.json" | python3 -c "
import json, sys
op = json.load(sys.stdin)['paths']['/ostiary/v1/stores/{store}/$path']['post']
print(json.dumps(op['requestBody']['content']['application/json']['example']))")"
done
"$work/venv/bin/schemathesis" --config-file schemathesis.toml run "$base/openapi.json" -H "Authorization: Bearer $key" \
	--exclude-operation-id Watch --exclude-operation-id WatchPermission --exclude-operation-id DeleteStore --exclude-operation-id Import \
	--phases examples,coverage,fuzzing --max-examples "${EXAMPLES:-25}" --seed "${SEED:-1}" --exclude-checks positive_data_acceptance \
	--continue-on-failure --no-color && status=0 || status=$?
if [ "$status" = 0 ]; then echo "1 passed, 0 failed, 0 skipped"; else echo "0 passed, 1 failed, 0 skipped"; fi
exit "$status"
