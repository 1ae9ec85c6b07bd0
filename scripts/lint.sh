#!/usr/bin/env bash
# Formatting, vet, staticcheck and known vulnerabilities, over every module of the repository.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
GO="${GO:-go}"

# vulnerabilities runs govulncheck. Its database is on the network: where it can't be reached,
# that is said and does not fail the run; a finding does.
vulnerabilities() {
	local out status=0 timed_out=124
	out="$(timeout 300 "$GO" tool -modfile=tools/go.mod govulncheck ./... 2>&1)" || status=$?
	if [[ $status == 0 ]]; then
		echo "govulncheck: no known vulnerability is reachable"
	elif [[ $status == "$timed_out" ]] || grep -q 'fetching vulnerabilities' <<<"$out"; then
		echo "govulncheck: not checked, the vulnerability database can't be reached from here"
	else
		printf '%s\n' "$out" >&2
		return 1
	fi
}

echo "== gofmt"
unformatted="$(find . -name '*.go' -not -path '*/testdata/*' -not -path './.git/*' -print0 |
	xargs -0 gofmt -l)"
if [[ -n $unformatted ]]; then
	printf 'not formatted (make fmt):\n%s\n' "$unformatted" >&2
	exit 1
fi

echo "== go vet"
"$GO" vet ./...

echo "== staticcheck"
"$GO" tool -modfile=tools/go.mod staticcheck ./...

# Modules of their own, so that what we are compared with is no dependency of once.
tools="$PWD/tools/go.mod"
for module in bench deploy/queries webhook/peers oncehttp/peers internal/testserver/ferret; do
	if [[ -e $module/go.mod ]]; then
		echo "== go vet, staticcheck: $module"
		"$GO" -C "$module" vet ./...
		(cd "$module" && "$GO" tool -modfile="$tools" staticcheck ./...)
	fi
done

echo "== govulncheck"
vulnerabilities
