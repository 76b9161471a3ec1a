#!/usr/bin/env bash
# Plays ONAP's own JMeter plans, perf.jmx and stability.jmx, unmodified against
# this program's ONAP doors with Basic authentication. With "load" as the argument it plays
# twice as long, and also against a server that does no work. It needs Go, and Java 17 and Maven, which root installs. The plans are in ../shared/onap
# next to the repository, or in OSTIARY_ONAP_PLANS. DURATION (seconds) and USERS
# change the load. What it downloads is in .work, which is ignored. Without the plans it
# skips, and its last line counts the plays.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD root=$(cd ../.. && pwd) work=$PWD/.work
plans=${OSTIARY_ONAP_PLANS:-$root/../shared/onap}
load=${1:-}
duration=${DURATION:-15} users=${USERS:-10}
plays=2
[ "$load" != load ] || plays=4 duration=${DURATION:-30}
. ../needs.sh
[ -f "$plans/perf.jmx" ] && [ -f "$plans/stability.jmx" ] || skip $plays "there are no plans in $plans: set OSTIARY_ONAP_PLANS"
plans=$(cd "$plans" && pwd)
need $plays java jar mvn python3

# JMeter 5.6.3 from Maven Central, in the folders that its launcher expects.
home=$work/jmeter
if [ ! -f "$home/bin/ApacheJMeter.jar" ]; then
	rm -rf "$home" "$work/config"
	if [ ! -d "$work/jars" ]; then
		rm -rf "$work/download"
		mvn -q -B -f pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.7.1:copy-dependencies "-DoutputDirectory=$work/download" || lacks $plays "needs JMeter of Maven Central, which cannot be downloaded"
		mv "$work/download" "$work/jars"
	fi
	mkdir -p "$home/bin" "$home/lib/ext" "$home/lib/junit" "$work/config"
	(cd "$work/config" && jar xf "$work"/jars/ApacheJMeter_config-*.jar) || lacks $plays "needs default-jdk-headless of Debian: jar fails"
	cp -r "$work/config/bin/." "$home/bin/"
	cp "$work"/jars/*.jar "$home/lib/"
	mv "$home"/lib/ApacheJMeter_*.jar "$home/lib/ext/"
	mv "$home"/lib/ApacheJMeter-*.jar "$home/bin/ApacheJMeter.jar"
fi
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary)
(cd noop && go build -o "$work/noop" .)

rm -rf "$work/data" "$work/runs"
mkdir -p "$work/runs"
(umask 077 && echo 'policyadmin zb!XztG34' >"$work/users")
pids=()
trap 'for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done' EXIT
address() { # log: waits for the address of a server
	for _ in $(seq 600); do
		at=$(sed -n 's/^serving http \([0-9.:]*\).*/\1/p' "$1")
		[ -n "$at" ] && return
		sleep 0.1
	done
	echo "no server: $(cat "$1")" >&2
	exit 1
}
: >"$work/ostiary.log" # address may read it before the server has made it
"$work/ostiary" serve --data "$work/data" --http 127.0.0.1:0 --grpc off --metrics off --auth-users-file "$work/users" >"$work/ostiary.log" 2>&1 &
pids+=($!)
address "$work/ostiary.log" && ours=$at
if [ "$load" = load ]; then
	"$work/noop" >"$work/noop.log" 2>&1 &
	pids+=($!)
	address "$work/noop.log" && noop=$at
fi

passed=0 failed=0
play() { # plan, name of the server, address, users
	local dir=$work/runs/$1-$2 port=${3##*:}
	mkdir -p "$dir"
	# localhost must be 127.0.0.1, where the servers listen.
	(cd "$dir" && java -Djava.net.preferIPv4Stack=true -Xmx1g -jar "$home/bin/ApacheJMeter.jar" -n -t "$plans/$1.jmx" -l results.jtl -j jmeter.log \
		-Jduration="$duration" -Jusers="$4" -Japi_port="$port" -Jpap_port="$port" -Jxacml_port="$port" >jmeter.out 2>&1) || {
		echo "FAIL $1 on $2: JMeter failed"
		tail -5 "$dir/jmeter.out"
		failed=$((failed + 1))
		return
	}
	local line
	if line=$(python3 "$here/count.py" "$dir/results.jtl"); then
		echo "ok $1 on $2, $4 users: $line"
		passed=$((passed + 1))
	else
		echo "FAIL $1 on $2: $line"
		failed=$((failed + 1))
	fi
}
play perf ostiary "$ours" "$users"
play stability ostiary "$ours" 2
if [ "$load" = load ]; then
	play perf noop "$noop" "$users"
	play stability noop "$noop" 2
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
