#!/usr/bin/env bash
# Plays callers with tokens of panva's oidc-provider (npm) against this program. Needs
# node 20, npm and openssl. What it fetches is in .work, which is ignored. Where that
# cannot be fetched, it prints why and skips. Its last line counts the checks.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work
mkdir -p "$work"
skip() {
	echo "skip conformance/oidc: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}
for program in node npm openssl; do
	command -v "$program" >/dev/null || skip "there is no $program"
done
cp package.json provider.mjs play.mjs "$work/"
(cd "$work" && timeout 300 npm install --no-audit --no-fund --ignore-scripts --silent) || skip "npm cannot install the provider"
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary)
rm -rf "$work/run"
mkdir "$work/run"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
	-keyout "$work/run/tls.key" -out "$work/run/tls.pem" 2>/dev/null
cd "$work"
trap 'kill $play 2>/dev/null || true' EXIT
NODE_NO_WARNINGS=1 timeout -k 10 900 node play.mjs "$work/ostiary" "$work/run" 2>"$work/run/warnings" &
play=$!
wait $play || { status=$?; tail -n 5 "$work/run/warnings"; exit $status; }
