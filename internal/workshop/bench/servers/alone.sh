#!/usr/bin/env bash
# Runs a command as on a machine that has Go, a C compiler, make, git and the essential
# packages of Debian, but none of the programs of programs.txt: PATH has nothing else.
set -euo pipefail
path=$(mktemp -d)
trap 'rm -rf "$path"' EXIT
essential=$(dpkg-query -Wf '${Essential} ${Package}\n' | awk '$1 == "yes" {print $2}')
dpkg -L $essential | grep -E '/s?bin/[^/]+$' | while read -r file; do
	[ ! -x "$file" ] || ln -sf "$file" "$path/"
done
for name in go gofmt make git awk cc gcc g++ as ld ar; do
	! file=$(command -v $name) || ln -sf "$file" "$path/"
done
TEST_SERVERS=none PATH=$path "$@"
