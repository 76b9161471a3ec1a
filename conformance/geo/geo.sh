#!/usr/bin/env bash
# Plays the study of multi-region Keystone deployments ("ostiary-bench geo"), with the
# arguments of this script, and keeps the records in the folder RECORDS. By default it goes
# on with those of docs/benchmarks/geo.tar, and writes them back with the figures of
# docs/geo.md. What the page and Rally's results need is written to .work. With --show it
# plays nothing, and shows the records of the archive.
set -uo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd) here=$PWD/.work
archive=$root/docs/benchmarks/geo.tar records=${RECORDS:-$here/study} figures=()
mkdir -p .work
show() { "$here/ostiary-bench" geo --records "$records" --html "$here/geo.html" --rally-out "$here/rally" "${figures[@]}" "$@"; }
if [ "${1:-}" = --show ]; then
	records=$here/shown figures=(--figures "$root/docs")
	rm -rf "$records" && mkdir "$records" && tar -xf "$archive" -C "$records" || exit 1
	(cd "$root" && go build -o "$here/" ./cmd/ostiary-bench) || exit 1
	show "$@"
	exit
fi
if [ -z "${RECORDS:-}" ]; then
	mkdir -p "$records" && tar -xf "$archive" -C "$records" --skip-old-files || exit 1
	figures=(--figures "$root/docs")
	trap 'tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$records" -cf "$archive" .' EXIT
fi
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
(cd "$root" && go build -buildvcs=auto -o "$here/" ./cmd/ostiary ./cmd/ostiary-bench) || exit 1
show "$@"
