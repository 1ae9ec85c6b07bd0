#!/usr/bin/env bash
# The checks of lint.sh, then every test. The last lines are those of `go test` itself.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
GO="${GO:-go}"

# Two packages at a time: some start servers and wait for them with a deadline.
flags=(-shuffle=on -p 2 -timeout 15m)
if [[ ${RACE:-1} == 1 ]]; then
	export CGO_ENABLED=1
	flags+=(-race)
fi

scripts/lint.sh

for module in bench deploy/queries webhook/peers oncehttp/peers; do
	if [[ -e $module/go.mod ]]; then
		echo "== go test: $module"
		"$GO" -C "$module" test "${flags[@]}" ./...
	fi
done

# The MongoDB-speaking server of the tests, compiled before tests wait for it. Without -race, with
# which it is another, slower program.
echo "== go test: internal/testserver/ferret"
"$GO" -C internal/testserver/ferret build -o /dev/null .
"$GO" -C internal/testserver/ferret test -shuffle=on -timeout 15m ./...

if [[ ${RACE:-1} == 1 ]]; then # the race detector makes allocations of its own
	echo "== go test: allocations, without -race"
	"$GO" test -count=1 -run 'AllocatesLittle' ./internal/config
fi

echo "== go test ${flags[*]} ${PACKAGES:-./...}"
# PACKAGES is a list of patterns, so it is split on purpose.
# shellcheck disable=SC2086
exec "$GO" test "${flags[@]}" ${PACKAGES:-./...}
