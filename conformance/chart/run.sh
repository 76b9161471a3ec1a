#!/usr/bin/env bash
# Makes the manifests of packaging/chart with Helm's own packages, compares them with golden
# files, and validates them with kubernetes-validate of PyPI. It needs python3, which root
# installs. What it fetches is in .work, which is ignored.
set -euo pipefail
cd "$(dirname "$0")"
work=$PWD/.work
mkdir -p "$work"
. ../needs.sh
need 3 python3
if [ ! -x "$work/venv/bin/kubernetes-validate" ]; then
	if ! { python3 -m venv "$work/venv" && timeout 600 "$work/venv/bin/pip" install -q -r requirements.txt; }; then
		rm -rf "$work/venv"
		lacks 3 "needs kubernetes-validate of PyPI, which cannot be installed"
	fi
fi
cd ../..
go run ./internal/workshop/testrun -C conformance/chart ${CI:+-complete} -count=1 -timeout 20m ./...
