#!/usr/bin/env bash
# Loads the example into a folder and asks it a few questions, with reasons.
# Usage: demo.sh [path of the ostiary binary]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ostiary=${1:-$here/../../bin/ostiary}
case $ostiary in /*) ;; *) ostiary=$PWD/$ostiary ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # the data goes to ./ostiary-data here, and away with it

say() {
  if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}
# ask runs a command as it would be typed; a check that is denied exits with 1.
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

say 'A folder with a store, a model and tuples'
ask store create acme
cp "$here/model.fga" "$here/tuples.yaml" .
ask schema write model.fga
ask tuple import tuples.yaml

say 'Anne may see the budget: her team is in engineering, which sees the folder above'
ask check user:anne can_view document:budget
ask explain user:anne can_view document:budget

say 'Bob is in the same team, but blocked from it'
ask check user:bob can_view document:budget
ask explain user:bob can_view document:budget

say 'The auditor may see it while the office is open'
ask check user:dora can_view document:budget --context '{"now":"2026-11-23T10:00:00Z"}'
ask check user:dora can_view document:budget --context '{"now":"2026-11-23T20:00:00Z"}'

say 'What Bob may see, and who may see the budget'
ask list objects user:bob can_view document
ask list subjects user can_view document:budget --context '{"now":"2026-11-23T10:00:00Z"}'
