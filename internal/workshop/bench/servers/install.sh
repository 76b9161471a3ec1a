#!/usr/bin/env bash
# Installs programs of programs.txt that are missing, as root on Debian. The arguments are
# their names; without any, all that "make test" uses. If one stays missing, it prints one
# line with the reason and fails.
set -uo pipefail
exec 9<"$0"
flock 9 # tests may run it at the same time
list=$(dirname "$0")/programs.txt
[ $# -gt 0 ] || set -- $(awk '$3 == "test" {print $1}' "$list")
export PATH=$PATH:/usr/sbin:/sbin

# lacking PROGRAM... prints "PROGRAM PACKAGE" of each program that is missing.
lacking() {
	local name line
	for name in "$@"; do
		line=$(awk -v name="$name" '$1 == name' "$list")
		set -f
		set -- $line
		set +f
		if [ $# -gt 3 ]; then
			compgen -G "$4" >/dev/null || echo "$1 $2"
		else
			command -v "$1" >/dev/null || echo "$1 $2"
		fi
	done
}

for name in "$@"; do
	if ! awk '{print $1}' "$list" | grep -Fqx -- "$name"; then
		echo "program $name: expected one of programs.txt"
		exit 1
	fi
done
missing=$(lacking "$@")
[ -n "$missing" ] || exit 0
why="only root can install it"
if [ "$(id -u)" = 0 ] && ! command -v apt-get >/dev/null; then
	why="there is no apt-get"
elif [ "$(id -u)" = 0 ]; then
	packages=$(awk '{print $2}' <<<"$missing" | tr , '\n' | sort -u)
	echo "installing" $packages >&2
	out=$(mktemp)
	trap 'rm -f "$out"' EXIT
	export DEBIAN_FRONTEND=noninteractive
	get() { timeout 600 apt-get install -y -q --no-install-recommends $packages </dev/null >"$out" 2>&1; }
	# The lists of packages are fetched only if apt-get has none, or old ones.
	get || { timeout 300 apt-get update -q </dev/null >"$out" 2>&1 && get; }
	missing=$(lacking "$@")
	[ -n "$missing" ] || exit 0
	why="apt-get cannot install it: $(grep -v '^[WN]:' "$out" | tail -n 1)"
fi
read -r program package <<<"$missing"
echo "needs $package of Debian: $program is not installed, and $why"
exit 1
