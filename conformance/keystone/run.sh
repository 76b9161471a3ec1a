#!/usr/bin/env bash
# Plays OpenStack's identity tests (tempest) and a session of openstackclient
# against the Keystone door. It needs python3. What it downloads is in .work,
# which git ignores. If that cannot be downloaded, it skips and names the reason.
# Its last line counts the tests.
set -uo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work
mkdir -p "$work"
if [ ! -x "$work/venv/bin/tempest" ] || [ ! -x "$work/venv/bin/openstack" ]; then
	if ! { python3 -m venv "$work/venv" && timeout 900 "$work/venv/bin/pip" install -q -r requirements.txt; }; then
		echo "skip conformance/keystone: tempest and openstackclient cannot be installed"
		echo "0 passed, 0 failed, 1 skipped"
		exit 0
	fi
fi
(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary) || exit 1

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port/v3
rm -rf "$work"/data "$work"/data.* "$work/locks" "$work/log"
export OS_BOOTSTRAP_PASSWORD=secret
"$work/ostiary" --data "$work/data" keystone bootstrap --bootstrap-region-id RegionOne \
	--bootstrap-public-url "$url" --bootstrap-internal-url "$url" --bootstrap-admin-url "$url" || exit 1
# Logins cost 300 ms of a processor each, so a busy machine needs a long timeout.
"$work/ostiary" --data "$work/data" serve --http off --grpc off --metrics off --request-timeout 60s --door "keystone=http://127.0.0.1:$port" >"$work/log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in $(seq 100); do
	grep -q "^serving" "$work/log" && break
	sleep 0.1
done

# The session: each command must succeed.
passed=0 failed=0
export OS_AUTH_URL=$url OS_USERNAME=admin OS_PASSWORD=secret OS_PROJECT_NAME=admin
export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default OS_IDENTITY_API_VERSION=3
while read -r line; do
	[ -n "$line" ] || continue
	if eval "$work/venv/bin/openstack -q $line" >"$work/session" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "failed: openstack $line"
		cat "$work/session"
	fi
done <session.txt

sed -e "s#URL#$url#" -e "s#WORK#$work#" tempest.conf.in >"$work/tempest.conf"
tests=$work/venv/lib/$(ls "$work/venv/lib")/site-packages
(cd "$work" && TEMPEST_CONFIG=$work/tempest.conf TEMPEST_CONFIG_DIR=$work venv/bin/python ../play.py "$tests" ../absent.txt) | tee "$work/tempest.out"
counts=$(tail -n 1 "$work/tempest.out")
number() { echo "$counts" | grep -oE "[0-9]+ $1" | grep -oE '^[0-9]+' || echo 0; }
echo "openstackclient: $passed of $((passed + failed)) commands; $counts"
failed=$((failed + $(number failed)))
echo "$((passed + $(number passed))) passed, $failed failed, $(number skipped) skipped"
[ "$failed" = 0 ]
