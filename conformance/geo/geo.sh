#!/usr/bin/env bash
# Plays the study of multi-region Keystone deployments ("ostiary bench geo"), with the
# arguments of this script, and keeps the records in RECORDS, docs/benchmarks/geo by
# default. What the page and Rally's results need is written to .work.
set -uo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. records=${RECORDS:-$PWD/../../docs/benchmarks/geo}
mkdir -p .work
here=$PWD/.work
cd ../keystone || exit 1
work=$PWD/.work
mkdir -p "$work"
. ./start.sh
if install keystone-venv requirements-keystone.txt uwsgi; then
	set -- --keystone "$work/keystone-venv" "$@"
else
	echo "without: needs keystone of PyPI, which cannot be installed, so its cells are left out:" >&2
	tail -n 3 "$work/keystone-venv.pip" >&2
fi
(cd "$root" && go build -buildvcs=auto -o "$here/ostiary" ./cmd/ostiary) || exit 1
exec "$here/ostiary" bench geo --records "$records" --html "$here/geo.html" --rally-out "$here/rally" "$@"
