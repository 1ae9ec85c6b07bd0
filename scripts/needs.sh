#!/usr/bin/env bash
# Makes sure that what the tests need is installed. As root it installs what is missing, without
# starting or enabling a service. Without root it prints the command to run and ends with 1.
set -euo pipefail

# The broker lives in /usr/sbin, which is not on every user's path.
export PATH="$PATH:/usr/sbin"
GO="${GO:-go}"

# can_compile tells whether there is a C compiler with its headers: the race detector needs both.
can_compile() {
	local cc
	cc="$("$GO" env CC)"
	printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' |
		$cc -x c - -o /dev/null 2>/dev/null
}

# install_quietly installs packages. No daemon starts meanwhile, and the servers' own services are
# switched off after: the tests start private servers on free ports.
install_quietly() {
	local policy=/usr/sbin/policy-rc.d
	if [[ ! -e $policy ]]; then
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	apt-get update -q
	apt-get install -q -y --no-install-recommends "$@"
	local service
	for service in mosquitto redis-server postgresql pgbouncer; do
		[[ " $* " == *" $service "* ]] || continue
		if command -v systemctl >/dev/null; then systemctl -q disable "$service" || true; fi
		if command -v update-rc.d >/dev/null; then update-rc.d "$service" disable || true; fi
	done
}

command -v "$GO" >/dev/null || {
	echo "make: the Go toolchain is missing: install Go 1.26 or newer and put it on PATH" >&2
	exit 1
}

missing=()
command -v mosquitto >/dev/null || missing+=(mosquitto)
command -v redis-server >/dev/null || missing+=(redis-server)
# Debian keeps the programs of PostgreSQL off the PATH.
command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
	missing+=(postgresql)
command -v pgbouncer >/dev/null || missing+=(pgbouncer)
command -v curl >/dev/null || missing+=(curl) # the documented commands are run
command -v openssl >/dev/null || missing+=(openssl)
command -v python3 >/dev/null || missing+=(python3) # so are the examples of services
command -v node >/dev/null || missing+=(nodejs)
if [[ ${RACE:-1} == 1 ]]; then
	can_compile || missing+=(gcc libc6-dev)
fi
[[ ${#missing[@]} -gt 0 ]] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "make: the tests need: ${missing[*]}; install them with this system's package manager" >&2
	exit 1
fi
if [[ $(id -u) -ne 0 ]]; then
	command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
	{
		echo "make: the tests need: ${missing[*]}. Install them with"
		echo
		echo "    sudo sh -c '$command'"
		echo
		echo "and run make again. (The tests start servers of their own on free ports; if the"
		echo "installed services are not wanted:"
		echo "sudo systemctl disable --now mosquitto redis-server postgresql pgbouncer)"
	} >&2
	exit 1
fi
echo "make: installing what the tests need: ${missing[*]}"
install_quietly "${missing[@]}" </dev/null
