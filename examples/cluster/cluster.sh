#!/usr/bin/env bash
# Starts three nodes of one cluster on this machine, and HAProxy in front of them.
# Usage: cluster.sh [path of the ostiary binary [directory of the data]]
# PORT is the port of the proxy, 8080 by default; the nodes use the 30 ports after it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ostiary=${1:-$here/../../bin/ostiary}
data=${2:-./ostiary-cluster}
port=${PORT:-8080}

# program prints the path of a program. It fails, with the name of its package on Debian and
# Ubuntu, if there is none: nothing has started then.
program() {
  PATH=$PATH:/usr/sbin command -v "$1" ||
    { echo "cluster.sh: no program $1: install the package $1 (on Debian and Ubuntu: apt-get install $1)" >&2; return 1; }
}

[ -x "$ostiary" ] || command -v "$ostiary" >/dev/null ||
  { echo "cluster.sh: no program $ostiary: build it with make build, or name it: cluster.sh PATH" >&2; exit 1; }
haproxy=$(program haproxy)
program curl >/dev/null
mkdir -p "$data"

processes=()
finish() {
  trap - EXIT INT TERM
  [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true
  wait
}
trap finish EXIT
trap 'exit 130' INT TERM

# start starts a node; further arguments are its part in the cluster.
start() {
  local n=$1
  shift
  "$ostiary" serve --data "$data/node$n" --http "127.0.0.1:$((port + n))" --grpc "127.0.0.1:$((port + 10 + n))" --metrics off \
    --nodes-listen "127.0.0.1:$((port + 20 + n))" --drain-time 2s "$@" >>"$data/node$n.log" 2>&1 &
  processes+=($!)
}

# ready waits until node n is ready.
ready() {
  until curl -sf "http://127.0.0.1:$((port + $1))/readyz" >/dev/null; do
    kill -0 "${processes[$(($1 - 1))]}" 2>/dev/null || { tail "$data/node$1.log" >&2; exit 1; }
    sleep 0.1
  done
}

if [ -d "$data/node3" ]; then
  # Two of three are a majority, so the nodes wait for each other.
  for n in 1 2 3; do start "$n" --cluster; done
  for n in 1 2 3; do ready "$n"; done
else
  start 1 --cluster
  ready 1
  for n in 2 3; do
    OSTIARY_JOIN=$("$ostiary" node token --data "$data/node1") start "$n"
    ready "$n"
  done
fi

PORT=$port N1=$((port + 1)) N2=$((port + 2)) N3=$((port + 3)) "$haproxy" -f "$here/haproxy.cfg" &
processes+=($!)
until curl -sf "http://127.0.0.1:$port/readyz" >/dev/null; do
  kill -0 "$!" 2>/dev/null || exit 1
  sleep 0.1
done
"$ostiary" node list --data "$data/node1"
echo "serving http://127.0.0.1:$port"
wait
