#!/bin/sh
# systemctl.sh: for tests: a stand-in for systemctl. It runs the one service for real, without systemd, and writes down what
# it was told. $STAND_IN: its directory; $STAND_IN_UNIT: the unit; $STAND_IN_ROOT: before the program's path.
set -eu

echo "stand-in: $*" >>"$STAND_IN/asked"
env >>"$STAND_IN/environment"
[ "$1" != --user ] || shift

running() {
	[ -e "$STAND_IN/pid" ] && kill -0 "$(cat "$STAND_IN/pid")" 2>/dev/null
}

stop() {
	running || return 0
	kill -TERM "$(cat "$STAND_IN/pid")"
	while running; do
		sleep 0.05
	done
}

start() {
	: >"$STAND_IN/log"
	program=$STAND_IN_ROOT$(sed -n 's/^ExecStart=\([^ ]*\) serve$/\1/p' "$STAND_IN_UNIT")
	"$program" serve </dev/null >"$STAND_IN/log" 2>&1 &
	echo $! >"$STAND_IN/pid"
	until grep -q 'serving' "$STAND_IN/log"; do
		running || exit 1
		sleep 0.05
	done
}

case $1 in
restart)
	stop
	start
	;;
disable) stop ;;
is-active)
	if running || [ -e "$STAND_IN/crashing" ]; then echo active; else echo inactive && exit 3; fi
	;;
is-failed) exit 1 ;;
show)
	# A service that crashes is another process each time that one looks.
	if [ -e "$STAND_IN/crashing" ]; then
		echo x >>"$STAND_IN/crashing"
		wc -l <"$STAND_IN/crashing"
	elif running; then
		cat "$STAND_IN/pid"
	else
		echo 0
	fi
	;;
show-environment) [ ! -e "$STAND_IN/absent" ] ;;
daemon-reload | enable) ;;
*) exit 2 ;;
esac
