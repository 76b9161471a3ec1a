#!/usr/bin/env bash
# Plays the commands of session.txt with openstackclient. Each must succeed.
# Argument: the command openstack. The variables OS_… select the server. The last
# line counts the commands.
set -uo pipefail
passed=0 failed=0
while read -r line; do
	[ -n "$line" ] || continue
	if out=$(eval "$1 -q $line" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "failed: openstack $line"
		echo "$out"
	fi
done <"$(dirname "$0")/session.txt"
echo "openstackclient: $passed passed, $failed failed"
[ "$failed" = 0 ]
