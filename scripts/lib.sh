# shellcheck shell=bash
#
# lib.sh: what the scripts share
#
# Find PostgreSQL, or install it; build the extension in a temporary directory;
# start a server there; and leave nothing behind, however the script ends.
#
# The extension is not installed in the system's PostgreSQL.  PostgreSQL finds
# its files relative to its programs, so that a copy of the programs, with links
# to everything else beside it, is a private installation; "make install" with
# the copy's pg_config puts the extension there.
#
# Building and serving is done by an unprivileged user, as the server demands,
# and without the caller's environment: PG* variables, MAKEFLAGS and .psqlrc have no
# effect.

versions='19 18 17 16 15'
with_tap=no		# will the TAP tests be run?
needs=()		# what else the script needs, as program=package
python_needs=()		# likewise, as module=package
python=/usr/bin/python3	# the distribution's, for which its modules are
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# ---------------------------------------------------------------------------
# What must be there
# ---------------------------------------------------------------------------

# is_complete PG_CONFIG: are the server, its headers and its makefiles there?
is_complete()
{
	[ -x "$1" ] &&
		[ -x "$("$1" --bindir)/postgres" ] &&
		[ -f "$("$1" --includedir-server)/postgres.h" ] &&
		[ -f "$("$1" --pgxs)" ]
}

# named_postgres VARIABLE: set pg_config to what an environment variable names.
named_postgres()
{
	local n

	pg_config=$(command -v "${!1}") ||
		die "$1 is '${!1}', and there is no such program"
	is_complete "$pg_config" ||
		die "the PostgreSQL of $pg_config lacks the server or its header files"
	n=$("$pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
	[ "$n" -ge 15 ] || die "$pg_config is of PostgreSQL $n; 15 or newer is needed"
}

# Set pg_config, or fail if no suitable PostgreSQL is installed.
find_postgres()
{
	local n

	if [ -n "${PG_CONFIG:-}" ]; then
		named_postgres PG_CONFIG
		return
	fi
	for n in $versions; do
		pg_config=/usr/lib/postgresql/$n/bin/pg_config
		if is_complete "$pg_config"; then
			return
		fi
	done
	return 1
}

# Print the packages that complete an installed server, or else those of the
# newest server that apt knows.
postgres_packages()
{
	local n

	for n in $versions; do
		if [ -x "/usr/lib/postgresql/$n/bin/postgres" ] && in_apt "postgresql-server-dev-$n"; then
			echo "postgresql-server-dev-$n"
			return
		fi
	done
	for n in $versions; do
		if in_apt "postgresql-$n" && in_apt "postgresql-server-dev-$n"; then
			echo "postgresql-$n postgresql-server-dev-$n"
			return
		fi
	done
	# Before the first "apt-get update" apt knows no package at all.
	! in_apt postgresql && echo "postgresql postgresql-server-dev-all"
}

in_apt()
{
	# It shows nothing, and succeeds, for a package that others only mention.
	[ -n "$(apt-cache show "$1" 2>/dev/null)" ]
}

# Print the packages other than PostgreSQL that are missing.
tool_packages()
{
	local need

	gcc -E -x c -include stdio.h /dev/null >/dev/null 2>&1 || echo gcc libc6-dev
	command -v make >/dev/null || echo make
	if [ "$with_tap" = yes ]; then
		command -v prove >/dev/null || echo perl
		perl -MIPC::Run -e 1 2>/dev/null || echo libipc-run-perl
	fi
	for need in "${needs[@]}"; do
		command -v "${need%%=*}" >/dev/null || echo "${need#*=}"
	done
	for need in "${python_needs[@]}"; do
		"$python" -c "import ${need%%=*}" 2>/dev/null || echo "${need#*=}"
	done
}

# Print the packages that are missing and that apt has, of those that the tests can
# do without: they skip themselves then, or a part of themselves.
optional_packages()
{
	local version package

	version=$("$pg_config" --bindir | sed -n 's,^/usr/lib/postgresql/\([0-9]*\)/bin$,\1,p')
	{
		PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null || echo pgbouncer
		command -v prometheus-postgres-exporter >/dev/null || echo prometheus-postgres-exporter
		command -v chromium >/dev/null || echo chromium
		"$python" -c 'import psycopg' 2>/dev/null || echo python3-psycopg
		[ -f "$("$pg_config" --sharedir)/extension/pg_cron.control" ] || [ -z "$version" ] ||
			echo "postgresql-$version-cron"
	} | while read -r package; do
		# Before the first "apt-get update" nobody knows.
		if in_apt "$package" || { command -v apt-get >/dev/null && ! in_apt postgresql; }; then
			echo "$package"
		fi
	done
}

# Set as_root to what makes a command run as root, or fail; "sudo true" may ask
# for a password.
find_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		as_root=(env DEBIAN_FRONTEND=noninteractive)
	elif command -v sudo >/dev/null && "$@"; then
		as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
	else
		return 1
	fi
}

# Make sure that all is there: set pg_config, installing whatever is missing.
require_tools()
{
	local as_root=(none) install output tools postgres=

	tools=$(tool_packages | xargs)
	if find_postgres && [ -z "$tools" ]; then
		return
	fi
	command -v apt-get >/dev/null ||
		die "there is no apt-get here.  Please install PostgreSQL (15 to 19) with its server
header files, gcc, make and, for the tests, prove and the Perl module IPC::Run;
and set PG_CONFIG if that PostgreSQL is not below /usr/lib/postgresql."

	if find_root sudo true; then
		output=$("${as_root[@]}" apt-get update 2>&1) || die "apt-get update failed: $output"
		tools=$(tool_packages | xargs)
	fi

	find_postgres || postgres=$(postgres_packages) || die "apt offers no PostgreSQL from 15 to 19, only
other versions.  The PostgreSQL project has packages for this distribution; as root:
  apt-get install postgresql-common && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh
Or set PG_CONFIG to the pg_config of an installation of your own."
	read -ra install <<<"apt-get install -y --no-install-recommends $postgres $tools"
	if [ "${as_root[0]}" = none ]; then
		die "some packages are missing, and root's rights to install them.  As root, run
  apt-get update && ${install[*]}
and then this again."
	fi
	echo "Installing $(xargs <<<"$postgres $tools") ..."
	# A fresh machine may be busy with its first upgrade: wait for that.
	output=$("${as_root[@]}" "${install[@]}" -o DPkg::Lock::Timeout=300 2>&1) ||
		die "${install[*]} failed: $output"
	find_postgres || die "PostgreSQL was installed, but not below /usr/lib/postgresql"
}

# Install what the tests can do without, if that is possible without questions.
offer_tools()
{
	local as_root packages=()

	mapfile -t packages < <(optional_packages)
	if [ ${#packages[@]} -gt 0 ] && find_root sudo -n true 2>/dev/null; then
		echo "Installing ${packages[*]} ..."
		"${as_root[@]}" apt-get update >/dev/null 2>&1 || true
		mapfile -t packages < <(optional_packages)
		"${as_root[@]}" apt-get install -y --no-install-recommends "${packages[@]}" \
			-o DPkg::Lock::Timeout=300 >/dev/null 2>&1 || echo "That failed: some tests are skipped."
	fi
}

# ---------------------------------------------------------------------------
# The temporary directory and what runs in it
# ---------------------------------------------------------------------------

tmp=			# the temporary directory
job=			# the process group of the step under way
become=()		# what makes a command run as the server's user

# Run a command as the server's user, with an environment of its own.
as_user()
{
	"${become[@]}" env -i PATH="$bindir:$PATH" HOME="$tmp" TMPDIR="$tmp" \
		TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 PGHOST="$tmp" PGUSER=postgres "$@"
}

# Like as_user, for everything that takes time.  The shell waits in "wait", which a
# signal interrupts, and the process group lets clean_up end all of the step.
run()
{
	local status=0

	set -m
	as_user "$@" </dev/null &
	job=$!
	set +m
	wait "$job" || status=$?
	job=
	return "$status"
}

# Like run, but silent unless the command fails.
quietly()
{
	if ! run "$@" >"$tmp/output" 2>&1; then
		cat "$tmp/output"
		return 1
	fi
}

# running PROGRAM: print the processes that run a program of the private
# installation, whoever started them.
running()
{
	find /proc/[0-9]*/exe -maxdepth 0 -lname "${tmp:?}/*/$1" | cut -d / -f 3
}

# Stop what runs, and remove the temporary directory.
clean_up()
{
	local try

	[ -n "$tmp" ] || return
	set +e
	trap '' INT TERM HUP
	# initdb may finish: if killed, it would leave shared memory behind.
	for ((try = 0; try < 100; try++)); do
		[ -n "$(running initdb)" ] || break
		sleep 0.1
	done
	if [ -n "$job" ]; then
		kill -TERM -- "-$job"
		for ((try = 0; try < 50; try++)); do
			kill -0 -- "-$job" || break
			sleep 0.1
		done
		kill -KILL -- "-$job"
	fi
	# Servers have sessions of their own, and a TAP test may have several.  They
	# get the time that an immediate shutdown needs to free their shared memory.
	for ((try = 0; try < 100; try++)); do
		# shellcheck disable=SC2046 # one word for each process
		kill -QUIT $(running '*') || break
		sleep 0.1
	done
	cd / && rm -rf "${tmp:?}"
} 2>/dev/null

# Make the temporary directory, and have it removed at the end.
make_tmp()
{
	local base=${TMPDIR:-/tmp} user=postgres

	if [ "$(id -u)" -eq 0 ]; then
		id "$user" >/dev/null 2>&1 || user=nobody
		# Unlike su and runuser, this leaves no process of root's in between.
		become=(setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups)
	fi
	# make cannot cope with spaces, a socket's path must be short, and the
	# server's user must be able to get there.
	if [[ $base == *[[:space:]]* ]] || [ ${#base} -gt 50 ] ||
		! "${become[@]}" test -w "$base"; then
		base=/tmp
	fi

	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'exit 129' HUP
	trap clean_up EXIT
	tmp=$(mktemp -d "$base/dexp3.XXXXXX")
	tmp=$(cd "$tmp" && pwd -P)
	if [ ${#become[@]} -gt 0 ]; then
		chown "$user" "$tmp"
	fi
}

# Make the private installation of PostgreSQL, and let pg_config and make be for it.
copy_postgres()
{
	local dir pkglibdir sharedir includedir

	bindir=$("$pg_config" --bindir)
	pkglibdir=$("$pg_config" --pkglibdir)
	sharedir=$("$pg_config" --sharedir)
	includedir=$("$pg_config" --includedir)

	as_user mkdir -p "$tmp$bindir" "$tmp$pkglibdir" "$tmp$sharedir" "$(dirname "$tmp$includedir")"
	# Programs are copied: a link would lead them back to the system's installation.
	as_user cp -RL "$bindir/." "$tmp$bindir"
	# Directories are made, never linked, since something is installed in them.
	# cp complains of links that lead nowhere, but leaving them out is right.
	for dir in "$pkglibdir" "$sharedir"; do
		as_user cp -RLs "$dir/." "$tmp$dir" 2>/dev/null || true
	done
	# Debian's versions share this one.
	as_user ln -sfn "$includedir" "$tmp$includedir"
	as_user rm -f "$tmp$pkglibdir"/dexp3.* "$tmp$sharedir"/extension/dexp3[.-]*

	bindir=$tmp$bindir
	pg_config=$bindir/pg_config
	if [ "$(as_user "$pg_config" --pkglibdir)" != "$tmp$pkglibdir" ] ||
		[ "$(as_user "$pg_config" --sharedir)" != "$tmp$sharedir" ]; then
		die "this PostgreSQL cannot be moved, so that it cannot be used for a trial"
	fi
	# No bitcode: it needs the right clang, and only serves to inline functions.
	make=(make PG_CONFIG="$pg_config" with_llvm=no)
	"$pg_config" --version
}

# Copy the sources of the working tree: all but what .gitignore names, which tar
# knows how to read, so that git is not needed.
copy_sources()
{
	as_user mkdir "$tmp/src"
	{
		# Status 1: a file changed meanwhile, which is fine.
		tar -C "$top" --exclude-vcs --exclude-vcs-ignores -cf - . 2>/dev/null || [ $? -eq 1 ]
	} | as_user tar -C "$tmp/src" --no-same-owner -xf -
	cd "$tmp/src" || exit
}

# Do everything up to the point where "${make[@]}" can be run in the current
# directory.
prepare()
{
	require_tools
	if [ "$with_tap" = yes ]; then
		offer_tools
	fi
	make_tmp
	copy_postgres
	copy_sources
}

# build FLAGS: compile, with these flags for the compiler as well, and install.
build()
{
	quietly "${make[@]}" -j "$(nproc)" COPT="$1" &&
		quietly "${make[@]}" COPT="$1" install
}

# install_old FLAGS: if OLD_PG_CONFIG names an older PostgreSQL, to upgrade from,
# build and install for a copy of that, too, and set old_pg_config.
install_old()
{
	local pg_config bindir make

	old_pg_config=
	if [ -n "${OLD_PG_CONFIG:-}" ]; then
		named_postgres OLD_PG_CONFIG
		copy_postgres
		build "$1" && quietly "${make[@]}" clean || return
		# shellcheck disable=SC2034 # for scripts/test
		old_pg_config=$pg_config
	fi
}

# Start a server that only its own user can reach.  It need not survive a crash
# of the machine (-F).
start_server()
{
	quietly initdb -D "$tmp/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync ||
		return
	if ! quietly pg_ctl -D "$tmp/data" -l "$tmp/server.log" -w \
		-o "-F -k $tmp -c listen_addresses=" start; then
		cat "$tmp/server.log"
		return 1
	fi
}
