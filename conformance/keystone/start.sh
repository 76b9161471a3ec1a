# Functions of run.sh and bench.sh, which read this file. The variable work is the
# folder of what they download.

# install VENV REQUIREMENTS BINARY makes a virtual environment of Python.
install() {
	[ -x "$work/$1/bin/$3" ] && cmp -s "$2" "$work/$1/$2" && return
	rm -rf "${work:?}/$1"
	python3 -m venv "$work/$1" && timeout 900 "$work/$1/bin/pip" install -q -r "$2" >"$work/$1.pip" 2>&1 && cp "$2" "$work/$1/"
}

# free prints a loopback port that no process listens on. The system gives it to no connection,
# and to no server that takes any port, until it is used.
free() {
	python3 -c '
import random, socket
while True:
    port = random.randrange(10000, 32000)
    try:
        socket.socket().bind(("127.0.0.1", port))
        print(port)
        break
    except OSError:
        pass'
}

# start_real FOLDER PORT ROUNDS DATABASE SETTINGS starts a real Keystone with real.sh
# and waits until it is ready, or has ended. SETTINGS is text for the end of its
# configuration. FOLDER.ready and FOLDER.err have what it prints. It sets peer, and the
# Keystone ends when descriptor 7 is closed.
start_real() {
	rm -rf "$1" "$1".*
	mkfifo "$1.hold"
	EXTRA=$5 bash real.sh "$work/keystone-venv" "$1" "$2" "$3" "$4" <"$1.hold" >"$1.ready" 2>"$1.err" &
	peer=$!
	exec 7>"$1.hold"
	for _ in $(seq 3000); do
		grep -q '^ready' "$1.ready" && break
		kill -0 $peer 2>/dev/null || break
		sleep 0.1
	done
}
