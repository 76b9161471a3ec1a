#!/usr/bin/env bash
# Lets Prometheus of Debian scrape nodes and a server with TLS and keys, and evaluate the rules
# and the board of examples/production, while all is well and while faults are injected. It
# unpacks the package without installing it, so that no service starts. Its last line counts the
# run.
set -uo pipefail
cd "$(dirname "$0")"
. ../needs.sh
if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
	mkdir -p .work
	export PATH=$PWD/.work/root/usr/bin:$PATH
	if ! command -v prometheus >/dev/null; then
		get() { (cd .work && rm -f ./*.deb && timeout 300 apt-get download -q prometheus && dpkg -x ./*.deb root) >.work/log 2>&1; }
		get || { timeout 300 apt-get update -q >/dev/null 2>&1 && get; } ||
			lacks 1 "needs prometheus of Debian: apt-get cannot download it: $(tail -n 1 .work/log 2>&1)"
	fi
fi
cd ../..
out=$(TEST_PROMETHEUS=1 go test -count=1 -timeout 15m -v -run 'TestPrometheus$' ./cmd/ostiary 2>&1)
status=$?
count() { grep -c -- "^ *--- $1:" <<<"$out" || true; }
if [ $status -ne 0 ]; then
	grep -v -- '^=== \|^ *--- PASS' <<<"$out" | tail -n 200
	echo "what failed:"
	grep -m 20 -A 3 'prometheus_test.go:[0-9]*:' <<<"$out" | cut -c 1-400
else
	grep -o ' [a-z][^:]*: \[Ostiary.*' <<<"$out"
fi
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $status
