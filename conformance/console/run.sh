#!/usr/bin/env bash
# Plays a user of the console in Debian's Chromium, with Playwright, axe and oidc-provider of npm, and makes the
# bundle again to compare it with the committed one. It needs node 20, npm and chromium; root
# installs what is missing. What it fetches is in .work, which is ignored. Its last line counts
# the checks. With PICTURES=FOLDER it writes pictures of the pages there.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work
mkdir -p "$work"
. ../needs.sh
need 1 node npm chromium
cp package.json ./*.mjs "$work/"
(cd "$work" && timeout 300 npm install --no-audit --no-fund --ignore-scripts --silent) || lacks 1 "needs playwright-core, axe-core and oidc-provider of npm, which cannot be installed"
built=0
timeout 300 bash "$root/console/build.sh" check || built=1
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary)
rm -rf "$work/run"
mkdir "$work/run"
cd "$work"
trap 'kill $play 2>/dev/null || true' EXIT
NODE_NO_WARNINGS=1 timeout -k 10 600 node play.mjs "$work/ostiary" "$root/examples/demo" "$work/run" ${PICTURES:+"$PICTURES"} >"$work/run/out" &
play=$!
status=0
wait $play || status=$?
grep -vE '^[0-9]+ passed' "$work/run/out" || true
counts=$(grep -E '^[0-9]+ passed' "$work/run/out" || echo "0 passed, 1 failed, 0 skipped")
read -r passed _ failed _ <<<"$counts"
[ "$built" = 0 ] && passed=$((passed + 1)) || failed=$((failed + 1))
echo "$passed passed, $failed failed, 0 skipped"
[ "$status" = 0 ] && [ "$built" = 0 ]
