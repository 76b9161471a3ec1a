#!/usr/bin/env bash
# changed.sh COMMIT prints the packages that differ from a commit, those whose tests depend
# on them, and the rules, which read the whole tree. A file of a folder testdata belongs to
# the package above it. After a change of go.mod it prints all packages.
set -euo pipefail
files=$(git diff --name-only "$1" && git ls-files --others --exclude-standard)
if grep -qE '^go\.(mod|sum)$' <<<"$files"; then
	exec go list ./...
fi
module=$(go list -m)
changed=$(sed -nE 's|/testdata/.*|/x.go|; s|^[^/]*\.go$|./&|; s|/[^/]*\.go$||p' <<<"$files" | sed "s|^|$module/|; s|/\.$||" | sort -u)
echo "$module/internal/workshop/rules"
go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk -v changed="$changed" '
	BEGIN { for (n = split(changed, names, "\n"); n; n--) differs[names[n]] }
	$1 ~ /\.test$/ { for (i = 2; i <= NF; i++) if ($i in differs) { sub(/\.test$/, "", $1); print $1; break } }'
