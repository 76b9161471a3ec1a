#!/usr/bin/env bash
# Plays clients and tests of OpenStack against the Keystone door; README.md lists
# them. What it downloads is in .work, which git ignores, and root installs the packages of
# Debian. A suite whose packages cannot be had is skipped with the reason, and with CI in
# the environment it fails. Arguments select suites; the default is all but personas, which
# takes long. The last line counts the tests of all suites.
set -uo pipefail
cd "$(dirname "$0")"
root=$PWD/../.. work=$PWD/.work
mkdir -p "$work"
. ./start.sh
. ../needs.sh
passed=0 failed=0 skipped=0

# number COUNTS WORD prints the number before a word: "3 passed, 0 failed".
number() { echo "$1" | grep -oE "[0-9]+ $2" | grep -oE '^[0-9]+' || echo 0; }

# suite NAME COMMAND... runs a command whose last line counts its tests. A command
# that fails without counting a failure counts as one failed test.
suite() {
	local name=$1 begin=$SECONDS counts status
	shift
	"$@" >"$work/$name.out" 2>"$work/$name.err"
	status=$?
	counts=$(tail -n 1 "$work/$name.out")
	if [ "$status" != 0 ]; then
		tail -n 60 "$work/$name.err" "$work/$name.out"
		[ "$(number "$counts" failed)" != 0 ] || counts="0 passed, 1 failed"
	fi
	grep '^skip' "$work/$name.out"
	passed=$((passed + $(number "$counts" passed))) failed=$((failed + $(number "$counts" failed))) skipped=$((skipped + $(number "$counts" skipped)))
	echo "$name: ${counts#"$name": } ($((SECONDS - begin)) s)"
}

# without NAME REASON counts a suite as skipped, or with CI in the environment as failed.
# The reason is a package that a registry has.
without() {
	echo "skip $1: $2"
	if [ -n "${CI:-}" ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
}

# methods is the default list, and one-time passwords.
methods=external,password,token,oauth1,mapped,application_credential,ec2credential,totp

# serve NAME PORT ARGUMENTS... starts a server on the folder .work/NAME and waits for
# it. It does not keep the pipe open that stops a real Keystone. Password hashes have the
# lowest cost: a login with the default one takes 300 ms of a processor.
serve() {
	"$work/ostiary" --data "$work/$1" serve --http off --grpc off --metrics off --request-timeout 60s --keystone-methods "$methods" --keystone-password-hash-rounds 4 --door "keystone=http://127.0.0.1:$2" "${@:3}" >"$work/$1.log" 2>&1 7>&- &
	servers="$servers $!"
	for _ in $(seq 1800); do # three nodes of conformance/nodes take long on a busy machine
		grep -qs "^serving" "$work/$1.log" && return
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	echo "the server does not start:"
	cat "$work/$1.log"
	return 1
}

tempest() {
	sed -e "s#URL#$url#" -e "s#WORK#$work#" tempest.conf.in >"$work/tempest.conf"
	local tests
	tests=$(echo "$work"/venv/lib/*/site-packages)
	(cd "$work" && TEMPEST_CONFIG=$work/tempest.conf TEMPEST_CONFIG_DIR=$work venv/bin/python ../play.py "$tests" tempest/api/identity ../absent.txt 3000)
}

# rbac runs the tests of keystone-tempest-plugin about who may do what, on a server
# of its own.
rbac() {
	local at=$(free) tests
	rm -rf "$work"/asking "$work"/asking.*
	OS_BOOTSTRAP_PASSWORD=secret "$work/ostiary" --data "$work/asking" keystone bootstrap --bootstrap-region-id RegionOne --bootstrap-public-url "http://127.0.0.1:$at/v3" || return 1
	serve asking "$at" || return 1
	mkdir -p "$work/plugin"
	sed -e "s#URL#http://127.0.0.1:$at/v3#" -e "s#WORK#$work/plugin#" tempest.conf.in >"$work/plugin/tempest.conf"
	tests=$(echo "$work"/plugin-venv/lib/*/site-packages)
	(cd "$work/plugin" && TEMPEST_CONFIG=$work/plugin/tempest.conf TEMPEST_CONFIG_DIR=$work/plugin ../plugin-venv/bin/python ../../play.py "$tests" keystone_tempest_plugin/tests/rbac/v3 ../../absent.txt "${RBAC_SECONDS:-3000}")
}

# compliance plays the tests of tempest that need rules for passwords, against a
# server that has them.
compliance() {
	local port tests
	port=$(free)
	OS_BOOTSTRAP_PASSWORD=secret "$work/ostiary" --data "$work/strict" keystone bootstrap --bootstrap-region-id RegionOne --bootstrap-public-url "http://127.0.0.1:$port/v3" || return 1
	serve strict "$port" --keystone-lockout-failure-attempts 2 --keystone-lockout-duration 5s \
		--keystone-unique-last-password-count 2 --keystone-password-expires-days 90 --keystone-disable-user-account-days-inactive 90 \
		--keystone-password-regex '^(?=.*[a-zA-Z]).{5,}$' || return 1
	sed -e "s#URL#http://127.0.0.1:$port/v3#" -e "s#WORK#$work#" -e 's/^security_compliance = false/security_compliance = true/' \
		-e 's/^\[identity\]$/&\nuser_lockout_failure_attempts = 2\nuser_lockout_duration = 5\nuser_unique_last_password_count = 2/' tempest.conf.in >"$work/strict.conf"
	tests=$(echo "$work"/venv/lib/*/site-packages)
	(cd "$work" && TEMPEST_CONFIG=$work/strict.conf TEMPEST_CONFIG_DIR=$work venv/bin/python ../play.py "$tests" tempest/api/identity ../absent.txt 3000 \
		v3.test_users. test_password_history_not_enforced_in_admin_reset admin.v3.test_users. v3.test_tokens.)
}

gophercloud() { (cd "$root" && go run ./internal/workshop/testrun -C conformance/keystone/gophercloud -count=1 -timeout 20m ./...); }

middleware() { OS_PASSWORD=secret "$work/venv/bin/python" middleware.py "$url" "$work/data.fernet"; }

# notifications reads what the clients of the suites before it have caused. pycadf is a
# dependency of keystonemiddleware.
notifications() { "$work/venv/bin/python" notifications.py "$work"/notifications/*.jsonl && echo "1 passed, 0 failed"; }

logins() { OS_PASSWORD=secret "$work/venv/bin/python" -W ignore logins.py "$url"; }

rallies() { OS_PASSWORD=secret bash rally.sh "$work/rally-venv" "$url" "$work/rally"; }

# settings are those of the real Keystone of the suites real and postgresql: rules
# for passwords, which count what an import copies, and no cache of the catalog,
# because its two processes have a cache each.
settings='[catalog]
caching = false
[security_compliance]
lockout_failure_attempts = 3
unique_last_password_count = 2
disable_user_account_days_inactive = 90'

# real DATABASE compares a real Keystone on mariadb or postgresql with a server that
# has imported its database. Then it imports it again, with rows that cannot be
# copied.
real() {
	local kind=$1 at=$work/real-$1 realport=$(free) ours=$(free) database status peer
	local imported=imported-$kind
	rm -rf "$work/$imported"* "$work/spoilt-$kind"*
	start_real "$at" "$realport" 4 "$kind" "$settings"
	database=$(sed -n 's/^ready //p' "$at.ready")
	if [ -z "$database" ]; then
		cat "$at.ready" "$at.err"
		exec 7>&-
		return 1
	fi
	exchange fill "http://127.0.0.1:$realport/v3" "$at.json" "$database" &&
		imports "$imported" "$at" "$database" &&
		serve "$imported" "$ours" --keystone-lockout-failure-attempts 3 --keystone-unique-last-password-count 2 --keystone-disable-user-account-days-inactive 90 &&
		exchange compare "http://127.0.0.1:$ours/v3" "http://127.0.0.1:$realport/v3" "$at.json" >"$at.compare"
	status=$?
	cat "$at.compare"
	if [ "$status" = 0 ]; then
		exchange spoil "$database" && ! imports "spoilt-$kind" "$at" "$database" 2>"$at.spoilt" && exchange spoiled "$work/spoilt-$kind.import.txt" >"$at.spoiled"
		status=$?
		cat "$at.spoilt" "$at.spoiled"
	fi
	exec 7>&-
	wait $peer
	echo "$kind: $(($(number "$(tail -n 1 "$at.compare")" passed) + $(number "$(tail -n 1 "$at.spoiled")" passed))) passed, $(($(number "$(tail -n 1 "$at.compare")" failed) + $(number "$(tail -n 1 "$at.spoiled")" failed))) failed"
	return $status
}

exchange() { "$work/keystone-venv/bin/python" -W ignore exchange.py "$@"; }

# imports NAME REAL DATABASE imports a database to the folder .work/NAME, with the
# keys of the real Keystone in the folder REAL.
imports() { "$work/ostiary" --data "$work/$1" keystone import --from "$3" --fernet-keys "$2/fernet" --credential-keys "$2/credential"; }

# personas asks a real Keystone on MariaDB what the tests of the door ask the door.
personas() {
	local at=$work/asked port=$(free) status peer
	start_real "$at" "$port" 4 mariadb ""
	grep -q '^ready' "$at.ready" || cat "$at.ready" "$at.err"
	"$work/keystone-venv/bin/python" -W ignore personas.py "http://127.0.0.1:$port" "$root/door/keystone/testdata/personas.txt"
	status=$?
	exec 7>&-
	wait $peer
	return $status
}

chosen="${*:-openstackclient tempest compliance gophercloud keystonemiddleware keystoneauth rally rbac policies real}"
wants() { [[ " $chosen " == *" $1 "* ]]; }

servers=
trap '[ -z "$servers" ] || kill $servers 2>/dev/null' EXIT
need 1 python3
# OSTIARY_BIN names a program that is built already.
if [ -n "${OSTIARY_BIN:-}" ]; then
	cp -f "$OSTIARY_BIN" "$work/ostiary" # the server of an earlier run may still be ending
else
	(cd "$root" && go build -o "$work/ostiary" ./cmd/ostiary)
fi || exit 1
port=$(free)
url=http://127.0.0.1:$port/v3
rm -rf "$work"/data "$work"/data.* "$work"/strict* "$work/locks" "$work/notifications"
OS_BOOTSTRAP_PASSWORD=secret "$work/ostiary" --data "$work/data" keystone bootstrap --bootstrap-region-id RegionOne \
	--bootstrap-public-url "$url" --bootstrap-internal-url "$url" --bootstrap-admin-url "$url" || exit 1
serve data "$port" --keystone-notifications "$work/notifications" || exit 1
export OS_AUTH_URL=$url OS_USERNAME=admin OS_PASSWORD=secret OS_PROJECT_NAME=admin
export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default OS_IDENTITY_API_VERSION=3

if wants openstackclient || wants tempest || wants compliance || wants keystonemiddleware || wants keystoneauth; then
	if install venv requirements.txt tempest; then
		wants openstackclient && suite openstackclient bash session.sh "$work/venv/bin/openstack"
		wants tempest && suite tempest tempest
		wants compliance && suite compliance compliance
		wants keystonemiddleware && suite keystonemiddleware middleware
		wants keystoneauth && suite keystoneauth logins
		wants openstackclient && suite notifications notifications
	else
		without "openstackclient, tempest, compliance, keystonemiddleware, keystoneauth" "needs the packages of requirements.txt of PyPI, which cannot be installed"
	fi
fi
if wants gophercloud; then
	if (cd gophercloud && go mod download 2>"$work/gophercloud.err"); then
		suite gophercloud gophercloud
	else
		without gophercloud "needs gophercloud of the Go module proxy, which cannot be downloaded"
	fi
fi
if wants rally; then
	if install rally-venv requirements-rally.txt rally; then
		suite rally rallies
	else
		without rally "needs rally-openstack of PyPI, which cannot be installed"
	fi
fi
if wants rbac; then
	if install plugin-venv requirements-plugin.txt tempest; then
		suite rbac rbac
	else
		without rbac "needs keystone-tempest-plugin of PyPI, which cannot be installed"
	fi
fi
if wants real || wants postgresql || wants personas; then
	if ! why=$(program gcc python3-config) || ! install keystone-venv requirements-keystone.txt uwsgi; then
		without "real, postgresql, personas" "${why:-needs keystone of PyPI, which cannot be installed}"
	else
		# with NAME PROGRAM COMMAND... runs a chosen suite that needs a database server.
		with() {
			local why
			wants "$1" || return
			if why=$(program "$2"); then suite "$1" "${@:3}"; else without "$1" "$why"; fi
		}
		with real mariadbd real mariadb
		with personas mariadbd personas
		with postgresql postgres real postgresql
	fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
