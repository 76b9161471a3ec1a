#!/usr/bin/env bash
# Runs the shared log on a Galera cluster of three nodes, which it starts on loopback.
# It needs MariaDB with Galera, which root installs. Its last line counts the run.
set -uo pipefail
cd "$(dirname "$0")"
. ../needs.sh
need 1 mariadbd wsrep_sst_rsync libgalera_smm.so rsync lsof
cd ../..
out=$(OSTIARY_GALERA=1 go test -count=1 -timeout 20m -v -run 'TestGalera$' ./internal/cluster/mysql 2>&1)
status=$?
count() { grep -c -- "^ *--- $1:" <<<"$out" || true; }
if [ $status -ne 0 ]; then
	grep -v -- '^=== \|^ *--- PASS' <<<"$out" | tail -n 200
elif grep -q -- '^--- SKIP: TestGalera ' <<<"$out"; then
	lacks 1 "$(grep -o 'galera_test.go:[0-9]*: .*\|galera.go:[0-9]*: .*' <<<"$out" | head -n 1)"
fi
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $status
