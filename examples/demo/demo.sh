#!/usr/bin/env bash
# Loads the example into a folder, explains two decisions, then serves the folder
# and sends requests over HTTP, like any OpenFGA client.
# Usage: demo.sh [path of the ostiary binary]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ostiary=${1:-$here/../../bin/ostiary}
case $ostiary in /*) ;; *) ostiary=$PWD/$ostiary ;; esac
work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" || true; fi
  rm -rf "$work"
}
trap finish EXIT
cd "$work" # the data goes to ./ostiary-data in this folder, which finish removes

say() {
  if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}
# ask prints a command and runs it. Exit code 1 is not a failure: it is a denied check.
ask() {
  local word
  printf '$ ostiary'
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9:._#/-]*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n'
  "$ostiary" "$@" || [ $? -eq 1 ]
}

# post sends a request to the server's store, with curl if it is installed.
post() {
  printf '$ curl -s $API/%s -d '"'%s'"'\n' "$1" "$2"
  if command -v curl >/dev/null; then
    curl -sS --fail-with-body "$api/$1" -d "$2"
  else # without curl: HTTP through the shell
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
    printf 'POST /stores/%s/%s HTTP/1.0\r\nContent-Length: %s\r\n\r\n%s' "$store" "$1" "${#2}" "$2" >&3
    sed '1,/^\r$/d' <&3
  fi
  printf '\n'
}

say 'A folder with a store, a model and tuples'
ask store create acme
cp "$here/model.fga" "$here/tuples.yaml" .
ask schema write model.fga
ask tuple import tuples.yaml

say 'Anne may view the budget, because her team is part of engineering, which may view the folder'
ask explain user:anne can_view document:budget

say 'Bob may not view it: he is in the same team, but blocked from the budget'
ask explain user:bob can_view document:budget

say 'The same folder with a server, which has OpenFGA'"'"'s HTTP and gRPC API'
store=$("$ostiary" store list --json | sed 's/\[{"id":"\([^"]*\)".*/\1/')
printf '$ ostiary serve &\n'
"$ostiary" serve --http 127.0.0.1:0 --grpc 127.0.0.1:0 --metrics off >serving &
server=$!
until [ -s serving ]; do kill -0 "$server"; sleep 0.05; done # wait until the server prints its address, or fails
cat serving
address=$(sed 's/serving http \([^,]*\),.*/\1/' serving)
api=http://$address/stores/$store
printf '$ API=%s\n' "$api"

say 'Anne, Bob, and the auditor during and after office hours'
post check '{"tuple_key":{"user":"user:anne","relation":"can_view","object":"document:budget"}}'
post check '{"tuple_key":{"user":"user:bob","relation":"can_view","object":"document:budget"}}'
post check '{"tuple_key":{"user":"user:dora","relation":"can_view","object":"document:budget"},"context":{"now":"2026-11-23T10:00:00Z"}}'
post check '{"tuple_key":{"user":"user:dora","relation":"can_view","object":"document:budget"},"context":{"now":"2026-11-23T20:00:00Z"}}'

say 'The documents that Bob may view, and the users who may view the budget'
post list-objects '{"user":"user:bob","relation":"can_view","type":"document"}'
post list-users '{"object":{"type":"document","id":"budget"},"relation":"can_view","user_filters":[{"type":"user"}],"context":{"now":"2026-11-23T10:00:00Z"}}'

say 'A write over HTTP is on disk when the server acknowledges it: after the server stops, the folder has it'
post write '{"writes":{"tuple_keys":[{"user":"user:erin","relation":"viewer","object":"document:budget"}]}}'
kill "$server"
wait "$server"
server=
ask check user:erin can_view document:budget
