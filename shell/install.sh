#!/bin/sh
# install.sh: put bastion on this machine and start it: for the machine as root, for yourself as anybody else.
#
# usage: sh shell/install.sh [--networked | --local] [--from DIR] [--prefix DIR] [--root DIR]
#        sh shell/install.sh --uninstall [--prefix DIR] [--root DIR]
#
# As root: the program below /usr/local, a user "bastion" for its actors, a system service. A new machine is on a
# network, and answers to the first Host that is paired; --local is for a person's own. A machine that is paired keeps its
# mode unless one is given.
# As anybody else: the program below ~/.local, a service of your own, which is asked to run also while you are logged out.
#
# With a pairing code in the environment (BASTION_PAIR_CODE, made by "bastion host invite") the machine is paired as well.
# --from DIR takes what was built there (build/) instead of building. --root DIR takes DIR for the root of the machine, as
# its tests do; for a package, see make install.
# --uninstall stops the service and removes the program. What it knows stays, and the way to it is shown.

# Before anything is started that could inherit it: the environment of a process is read by more than its children.
code=${BASTION_PAIR_CODE-}
code_given=${BASTION_PAIR_CODE+yes}
unset BASTION_PAIR_CODE
set -eu

fail() {
	printf 'install.sh: %s\n' "$1" >&2
	exit "${2:-1}"
}

say() {
	printf '%s\n' "$1"
}

# What is not known is not shown again: it may be the code.
mode='' from='' prefix='' root='' uninstall=''
while [ $# -gt 0 ]; do
	case $1 in
	--networked | --local)
		[ -z "$mode" ] || [ "$mode" = "${1#--}" ] || fail 'a machine is networked or local, not both' 2
		mode=${1#--}
		;;
	--from | --prefix | --root)
		[ $# -ge 2 ] || fail "the option $1 needs a directory" 2
		case $2 in
		/*) ;;
		*) fail "the option $1 needs the absolute path of a directory" 2 ;;
		esac
		case $1 in
		--from) from=$2 ;;
		--prefix) prefix=$2 ;;
		--root) root=${2%/} ;;
		esac
		shift
		;;
	--uninstall) uninstall=yes ;;
	-h | --help)
		sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	*) fail 'there is an argument that is not known; sh install.sh --help shows those that are' 2 ;;
	esac
	shift
done

# A whole code or none: half of one, cut off in a copy, would be found out only when everything else is done.
if [ -n "$code_given" ]; then
	case $code in
	'') fail 'BASTION_PAIR_CODE is empty: give the whole line that bastion host invite printed' 2 ;;
	*[!A-Za-z0-9_-]*) fail 'BASTION_PAIR_CODE is no pairing code: give the line that bastion host invite printed' 2 ;;
	bst_*) [ ${#code} -ge 200 ] || fail 'BASTION_PAIR_CODE was cut off: give the whole line' 2 ;;
	*) fail 'BASTION_PAIR_CODE is no pairing code: those begin with bst_' 2 ;;
	esac
	[ -z "$uninstall" ] || fail 'a pairing code is of no use for --uninstall' 2
fi

top=$(cd "$(dirname "$0")/.." && pwd)
share=$top/shell
if [ "$(id -u)" = 0 ]; then
	whose=system
	prefix=${prefix:-/usr/local}
	units=$prefix/lib/systemd/system
	unit_source=bastion.service
	BASTION_STATE=$root/var/lib/bastion
	BASTION_RUN=$root/run/bastion
	export BASTION_STATE BASTION_RUN
	state=$BASTION_STATE
else
	whose=user
	[ "$mode" != networked ] || fail 'a machine is put on a network by root: sudo sh install.sh --networked' 2
	prefix=${prefix:-$HOME/.local}
	units=${XDG_DATA_HOME:-$HOME/.local/share}/systemd/user
	unit_source=bastion-user.service
	state=${BASTION_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/bastion}
fi
program=$root$prefix/bin/bastion
profile=/etc/apparmor.d/bastion

manager() {
	if [ "$whose" = system ]; then
		systemctl "$@"
	else
		systemctl --user "$@"
	fi
}

journal_hint() {
	if [ "$whose" = system ]; then
		say 'See why: journalctl -u bastion -n 50' >&2
	else
		say 'See why: journalctl --user -u bastion -n 50' >&2
	fi
}

main_pid() {
	manager show -p MainPID --value bastion.service 2>/dev/null || echo 0
}

# The process that holds the lock of this state, as the kernel says; nothing where none does. What stands in the file is
# not asked: a process that has its number now may be anything.
holder() {
	[ -e "$state/bastion.lock" ] || return 0
	inode=$(stat -c %i "$state/bastion.lock")
	while read -r _ kind _ _ pid place _; do
		if [ "$kind" != FLOCK ] || [ "${place##*:}" != "$inode" ]; then
			continue
		fi
		for fd in "/proc/$pid/fd/"*; do
			[ "$(readlink "$fd" 2>/dev/null)" = "$state/bastion.lock" ] || continue
			echo "$pid"
			return 0
		done
	done </proc/locks
}

# A copy that somebody started by hand holds the lock, and would keep the service from starting.
stop_others() {
	other=$(holder)
	[ -n "$other" ] && [ "$other" != "$(main_pid)" ] || return 0
	say "A bastion that no service runs (process $other) is stopped first."
	kill -TERM "$other" 2>/dev/null || true
	tries=0
	while [ "$(holder)" = "$other" ]; do
		tries=$((tries + 1))
		[ $tries -lt 150 ] || fail "the process $other does not end; end it, then run this again"
		sleep 0.1
	done
}

# Started is not yet running: a service that ends at once is started again and again, each time as another process.
check_steady() {
	tries=0
	until [ "$(manager is-active bastion.service 2>/dev/null || true)" = active ]; do
		tries=$((tries + 1))
		if [ $tries -ge 100 ] || manager is-failed --quiet bastion.service 2>/dev/null; then
			journal_hint
			fail 'bastion was installed, and its service does not start'
		fi
		sleep 0.1
	done
	first=$(main_pid)
	for _ in 1 2 3; do
		sleep 1
		now=$(main_pid)
		if [ "$now" = 0 ] || [ "$now" != "$first" ] ||
			[ "$(manager is-active bastion.service 2>/dev/null || true)" != active ]; then
			journal_hint
			fail 'bastion was installed, and its service ends again and again'
		fi
	done
}

# One list for both ways.
installed() {
	printf '%s\n' "$prefix/bin/bastion" "$prefix/share/man/man1/bastion.1" \
		"$prefix/share/bash-completion/completions/bastion" "$prefix/share/zsh/site-functions/_bastion" \
		"$prefix/share/fish/vendor_completions.d/bastion.fish" "$prefix/lib/systemd/system/bastion.service" \
		"$prefix/lib/systemd/user/bastion-host.service" "$prefix/lib/systemd/user/bastion.service" \
		"$prefix/lib/sysusers.d/bastion.conf" "$prefix/lib/tmpfiles.d/bastion.conf" \
		"$units/bastion.service"
	[ "$whose" = system ] || printf '%s\n' "$units/bastion-host.service"
	[ "$whose" != system ] || printf '%s\n' "$profile"
}

uninstall() {
	manager disable --now bastion.service >/dev/null 2>&1 || true
	stop_others
	if [ -z "$root" ] && [ -e "$profile" ]; then
		apparmor_parser -R "$profile" 2>/dev/null || true
	fi
	installed | while read -r path; do
		rm -f "$root$path"
	done
	manager daemon-reload >/dev/null 2>&1 || true
	say "bastion was taken off this machine. What it knows is kept in $state; nothing reads it any more."
	say "To do away with that as well, for good: rm -r $state"
}

# As make install lays it out; from what was built elsewhere, or built here.
files() {
	if [ -n "$from" ]; then
		[ -x "$from/bastion" ] || fail "there is no program in $from"
		install -D -m 755 "$from/bastion" "$program"
		[ ! -e "$from/bastion.1" ] || install -D -m 644 "$from/bastion.1" "$root$prefix/share/man/man1/bastion.1"
	else
		say 'Building; that takes a minute.'
		make -s -C "$top" install PREFIX="$prefix" DESTDIR="$root"
	fi
	if [ "$whose" = system ]; then
		install -D -m 644 "$share/bastion.sysusers" "$root$prefix/lib/sysusers.d/bastion.conf"
		install -D -m 644 "$share/bastion.tmpfiles" "$root$prefix/lib/tmpfiles.d/bastion.conf"
	else
		unit "$share/bastion-host.service" "$root$units/bastion-host.service"
	fi
	unit "$share/$unit_source" "$root$units/bastion.service"
	apparmor
}

# Where AppArmor knows of user namespaces it may keep them for programs that have a profile.
apparmor() {
	[ "$whose" = system ] && [ -e "$root/etc/apparmor.d/abi/4.0" ] || return 0
	unit "$share/bastion.apparmor" "$root$profile"
	if [ -z "$root" ] && ! apparmor_parser -r "$profile" 2>/dev/null; then
		say "The profile $profile could not be loaded now; it will be when the machine starts."
	fi
}

unit() {
	mkdir -p "$(dirname "$2")"
	sed "s,@BINDIR@,$prefix/bin," "$1" >"$2.new"
	chmod 644 "$2.new"
	mv "$2.new" "$2"
}

people() {
	[ "$whose" = system ] || return 0
	if [ -n "$root" ]; then
		systemd-sysusers --root="$root" "$root$prefix/lib/sysusers.d/bastion.conf"
	else
		systemd-sysusers "$prefix/lib/sysusers.d/bastion.conf"
		systemd-tmpfiles --create "$prefix/lib/tmpfiles.d/bastion.conf"
	fi
}

linger() {
	[ "$whose" = user ] || return 0
	if loginctl enable-linger >/dev/null 2>&1; then
		say 'It runs also while you are logged out (lingering is on).'
	else
		say 'It stops when you log out: lingering could not be turned on. An administrator can:'
		say "    loginctl enable-linger $(id -un)"
	fi
}

start() {
	manager daemon-reload
	stop_others
	manager enable bastion.service >/dev/null 2>&1 || true
	if ! manager restart bastion.service; then
		journal_hint
		fail 'bastion was installed, and its service does not start'
	fi
	check_steady
}

# A machine is networked as root installs it; one that is paired as it is now stays so.
set_mode() {
	[ "$whose" = system ] || return 0
	if [ -z "$mode" ]; then
		paired=$("$program" sql --csv "SELECT count(*) FROM pairing WHERE state <> 'revoked'" | tail -n 1)
		[ "$paired" -gt 0 ] || mode=networked
	fi
	[ -z "$mode" ] || "$program" set-mode "$mode" || fail "the machine is not $mode; nothing else was undone"
}

# On standard input: a command line can be read by everybody. Paired already (3) is as good.
pair() {
	[ -n "$code_given" ] || return 0
	rc=0
	printf '%s\n' "$code" | "$program" pair - || rc=$?
	[ $rc = 0 ] || [ $rc = 3 ] || fail 'bastion runs, and it is not paired: see above' "$rc"
}

# Before anything is put anywhere: as a user who came by su there is a systemctl, and nobody whom it can ask.
manager show-environment >/dev/null 2>&1 ||
	fail 'systemd does not answer here. Log in as this user at a session of its own; or build, and run: bastion serve'
if [ -n "$uninstall" ]; then
	uninstall
	exit 0
fi
files
people
start
set_mode
pair
if [ "$whose" = system ]; then
	say "bastion is installed in $prefix and runs as a service of this machine."
else
	say "bastion is installed in $prefix and runs as a service of yours."
fi
linger
"$program" status
