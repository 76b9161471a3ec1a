#!/usr/bin/env bash
# Starts a real Keystone on a database of its own, on loopback, and stops both when
# its standard input ends. Arguments: the folder of its virtual environment, a
# new folder for its data, a port, the hash rounds (12 by default), and the database:
# mariadb (the default) or postgresql, which must be installed, or sqlite. EXTRA is text for
# the end of keystone.conf. It prints "ready" and the URL of the database. What is
# bounded is the virtual memory of each process.
set -uo pipefail
venv=$(realpath "$1") dir=$2 port=$3 rounds=${4:-12} kind=${5:-mariadb}
mkdir -p "$dir/etc" && cd "$dir" && dir=$PWD
ulimit -v 4000000
dbport=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
server= database=
trap '[ -z "$server" ] || kill -QUIT $server; [ -z "$database" ] || kill $database; wait; [ -z "${pgdata:-}" ] || rm -rf "$pgdata"' EXIT

# mariadb_server starts MariaDB with an empty database.
mariadb_server() {
	mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$dir/db" --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1 || return 1
	mariadbd --no-defaults --user="$(id -un)" --datadir="$dir/db" --bind-address=127.0.0.1 --port="$dbport" --socket="$dir/db.sock" --innodb-buffer-pool-size=256M >db.log 2>&1 &
	database=$!
	for _ in $(seq 300); do
		mariadb --no-defaults -uroot -S "$dir/db.sock" -e 'select 1' >/dev/null 2>&1 && break
		sleep 0.1
	done
	mariadb --no-defaults -uroot -S "$dir/db.sock" -e "create database keystone; create user 'keystone'@'%' identified by 'database'; grant all on keystone.* to 'keystone'@'%'" || return 1
	connection=mysql+pymysql://keystone:database@127.0.0.1:$dbport/keystone
}

# postgresql_server starts PostgreSQL with an empty database. It refuses to run as root, so
# its folder is one that the user postgres can reach.
postgresql_server() {
	local as=() bin
	bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
	pgdata=$(mktemp -d)
	if [ "$(id -u)" = 0 ]; then
		as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
		chown postgres "$pgdata"
	fi
	echo database >"$pgdata.pw" && chmod 644 "$pgdata.pw"
	(cd "$pgdata" && "${as[@]}" "$bin/initdb" -D "$pgdata/db" -U keystone --pwfile="$pgdata.pw" --auth=scram-sha-256 -E UTF8 --locale=C.UTF-8) >install.log 2>&1 || return 1
	rm -f "$pgdata.pw"
	(cd "$pgdata" && exec "${as[@]}" "$bin/postgres" -D "$pgdata/db" -h 127.0.0.1 -p "$dbport" -k "$pgdata") >db.log 2>&1 &
	database=$!
	for _ in $(seq 300); do
		PGPASSWORD=database "$bin/psql" -h 127.0.0.1 -p "$dbport" -U keystone -d postgres -qc 'create database keystone' >/dev/null 2>&1 && break
		sleep 0.1
	done
	connection=postgresql+psycopg2://keystone:database@127.0.0.1:$dbport/keystone
}

# sqlite_server names a file, which Keystone makes.
sqlite_server() { connection=sqlite:///$dir/keystone.db; }

"${kind}_server" || {
	tail -n 20 install.log db.log
	exit 1
}
cat >etc/keystone.conf <<CONF
[DEFAULT]
log_file = $dir/keystone.log
[database]
connection = $connection
[cache]
enabled = true
backend = dogpile.cache.memory
[identity]
password_hash_rounds = $rounds
[fernet_tokens]
key_repository = $dir/fernet
[fernet_receipts]
key_repository = $dir/receipts
[credential]
key_repository = $dir/credential
${EXTRA:-}
CONF
manage() { "$venv/bin/keystone-manage" --config-dir "$dir/etc" "$@" >>manage.log 2>&1; }
user=$(id -un) group=$(id -gn) url=http://127.0.0.1:$port/v3
manage db_sync && manage fernet_setup --keystone-user "$user" --keystone-group "$group" && manage receipt_setup --keystone-user "$user" --keystone-group "$group" &&
	manage credential_setup --keystone-user "$user" --keystone-group "$group" &&
	manage bootstrap --bootstrap-password secret --bootstrap-region-id RegionOne --bootstrap-admin-url "$url" --bootstrap-internal-url "$url" --bootstrap-public-url "$url" || {
	tail -n 20 manage.log
	exit 1
}
OS_KEYSTONE_CONFIG_DIR=$dir/etc "$venv/bin/uwsgi" --http-socket "127.0.0.1:$port" --module keystone.wsgi.api:application --virtualenv "$venv" --master --die-on-term \
	--processes 2 --threads 1 --lazy-apps --disable-logging --buffer-size 65535 --add-header 'Connection: close' >uwsgi.log 2>&1 &
server=$!
echo $server >uwsgi.pid
for _ in $(seq 600); do
	python3 -c "import urllib.request; urllib.request.urlopen('$url')" 2>/dev/null && break
	sleep 0.1
done
echo "ready $connection"
cat >/dev/null
