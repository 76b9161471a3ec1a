#!/usr/bin/env bash
# Makes the files of assets from those of src. With the argument check, it compares them with
# the committed ones and changes nothing. It needs node 20 and npm; what it fetches is in
# .work, which is ignored.
set -euo pipefail
cd "$(dirname "$0")"
work=$PWD/.work
rm -rf "$work/src" "$work/out"
mkdir -p "$work/out"
cp -r package.json package-lock.json tsconfig.json build.mjs src "$work/"
cp ../door/native/openapi.json "$work/openapi.json"
mkdir "$work/src/demo"
cp ../examples/demo/model.fga ../examples/demo/tuples.yaml "$work/src/demo/"
cd "$work"
if ! cmp -s package-lock.json node_modules/.installed; then
	npm ci --no-audit --no-fund --ignore-scripts --silent
	cp package-lock.json node_modules/.installed
fi
node build.mjs
if [ "${1:-}" = check ]; then
	diff -rq out ../assets || { echo "console/assets differs from what console/src makes: run make console" >&2; exit 1; }
	echo "console/assets is what console/src makes"
else
	cp out/* ../assets/
fi
