#!/usr/bin/env bash
# Runs every fuzz test of the module for FUZZTIME (default 10s), one after the other.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
GO="${GO:-go}"

found=0
while IFS=: read -r file func; do
	found=1
	package="$(dirname -- "$file")"
	name="${func#func }"
	echo "== $package $name"
	"$GO" test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10s}" "$package"
done < <(grep -roE --include='*_test.go' --exclude-dir=bench '^func Fuzz[A-Za-z0-9_]+' . | sort)

if [[ $found == 0 ]]; then
	echo "no fuzz test found" >&2
	exit 1
fi
