# shellcheck shell=bash
#
# systems.sh: bare Debian systems to try something in, for scripts that have sourced lib.sh
#
# They are made with debootstrap, which needs root.  What runs in them has mounts,
# processes and shared memory of its own, which the kernel removes with the last
# process, however the script ends.  Nothing is ever mounted where rm could see it.

# ---------------------------------------------------------------------------
# Running something that can be stopped
# ---------------------------------------------------------------------------

# Run a command in the background, as a process group, and wait for it, since a
# signal interrupts only "wait".
attend()
{
	local status=0

	set -m
	"$@" </dev/null &
	job=$!
	set +m
	wait "$job" || status=$?
	job=
	return "$status"
}

# End what runs.  It gets the time that scripts/test needs to clean up.
stop()
{
	local try

	[ -n "$job" ] || return
	set +e
	trap '' INT TERM HUP
	kill -TERM -- "-$job"
	for ((try = 0; try < 300; try++)); do
		kill -0 -- "-$job" || return
		sleep 0.1
	done
	kill -KILL -- "-$job"
} 2>/dev/null

# Run a command in namespaces that end with it, and with us.
contained()
{
	attend setpriv --pdeathsig KILL \
		unshare --mount --pid --ipc --fork --kill-child "$@"
}

# ---------------------------------------------------------------------------
# Debian systems
# ---------------------------------------------------------------------------

# require_debootstrap WHAT: fail if there can be no Debian system.
require_debootstrap()
{
	[ "$(id -u)" -eq 0 ] || die "only root can make a Debian system, such as $1"
	PATH=$PATH:/usr/sbin:/sbin
	command -v debootstrap >/dev/null ||
		die "debootstrap is needed to make a Debian system, such as $1"
}

# Let debootstrap, and apt in the systems, use the proxy of this machine's apt.
use_proxy()
{
	if command -v apt-config >/dev/null; then
		eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
	fi
	if [ -n "${http_proxy:-}" ]; then
		export http_proxy
	fi
}

# Print the mirror that this machine's apt uses.  If there is none, because this
# is not Debian, debootstrap has one of its own.
mirror()
{
	# shellcheck disable=SC2016 # for apt to expand
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' \
		2>/dev/null | sed -n 1p
}

# make_system DIRECTORY SUITE ARCHITECTURE
make_system()
{
	local root=$1 suite=$2 arch=$3

	# shellcheck disable=SC2046 # no word at all if there is no mirror
	contained debootstrap --variant=minbase --arch="$arch" "$suite" "$root" $(mirror) ||
		return

	# No service is to be started.
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod +x "$root/usr/sbin/policy-rc.d"
	# A mirror may be behind, and sid's lists are valid for a week only.
	echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90dates"
}

# in_system DIRECTORY ARCHITECTURE COMMAND...: run a command there, as root.
in_system()
{
	local root=$1 personality=()

	if [ "$2" = i386 ]; then
		personality=(setarch linux32)
	fi
	shift 2
	# debootstrap has made the device files.
	# shellcheck disable=SC2016 # variables of the other shell
	contained bash -c '
		mount -t proc proc "$0/proc" &&
		mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm" &&
		"$@"' "$root" "${personality[@]}" chroot "$root" \
		env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		${http_proxy:+"http_proxy=$http_proxy"} "$@"
}

# Copy the sources of the working tree, all but what .gitignore names, to a directory.
copy_tree()
{
	mkdir -p "$1"
	{
		# Status 1: a file changed meanwhile, which is fine.
		# shellcheck disable=SC2154 # lib.sh has set it
		tar -C "$top" --exclude-vcs --exclude-vcs-ignores -cf - . || [ $? -eq 1 ]
	} | tar -C "$1" --no-same-owner -xf -
}
