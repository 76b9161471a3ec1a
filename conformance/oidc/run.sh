#!/usr/bin/env bash
# Plays callers with tokens of panva's oidc-provider (npm) against this program. It needs
# node 20, npm and openssl; root installs what is missing. What it fetches is in .work, which is
# ignored. Its last line counts the checks.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work
mkdir -p "$work"
. ../needs.sh
need 1 node npm openssl
cp package.json provider.mjs play.mjs "$work/"
(cd "$work" && timeout 300 npm install --no-audit --no-fund --ignore-scripts --silent) || lacks 1 "needs oidc-provider of npm, which cannot be installed"
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
