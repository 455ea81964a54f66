#!/bin/sh
# demo.sh BASTION: play the main job once, for real, in a directory of its own; print each command.
set -eu

BASTION=$(realpath "$1")
dir=$(mktemp -d /tmp/bastion-demo-XXXXXX)
export BASTION_STATE="$dir/box/state" BASTION_RUN="$dir/box/run"
export BASTION_HOST_STATE="$dir/host/state" BASTION_HOST_RUN="$dir/host/run"
pids='' listener=''

cleanup() {
	for pid in $pids $listener; do
		if kill "$pid" 2>/dev/null; then wait "$pid" 2>/dev/null || true; fi
	done
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

bold="" plain=""
if [ -t 1 ]; then
	bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi

say() {
	printf '\n%s# %s%s\n' "$bold" "$*" "$plain"
}

bastion() {
	"$BASTION" "$@"
}

# show COMMAND...: print it as a person would type it.
show() {
	printf '%s$ %s%s\n' "$bold" "$*" "$plain"
}

run() {
	show "$@"
	"$@"
}

# fails CODE COMMAND...: the same, for a command that must end with CODE.
fails() {
	want=$1
	shift
	show "$@"
	code=0
	"$@" || code=$?
	echo "(exit $code)"
	[ "$code" = "$want" ] || { echo "demo: expected exit $want"; exit 1; }
}

# start_daemon NAME WORDS...: start a daemon and wait until it says that it serves.
start_daemon() {
	log=$dir/$1.log
	shift
	show "bastion $* &"
	"$BASTION" "$@" >"$log" 2>&1 &
	pids="$pids $!"
	i=0
	until grep -q serving "$log"; do
		i=$((i + 1))
		if [ $i -gt 200 ] || ! kill -0 "$!" 2>/dev/null; then
			cat "$log"
			echo "demo: the daemon did not start"
			exit 1
		fi
		sleep 0.05
	done
	cat "$log"
}

# approve_by_key N: a person reads question N and signs exactly what is shown.
approve_by_key() {
	show "bastion approvals show $1 --bytes | ssh-keygen -Y sign -n bastion -f me > answer.sig"
	bastion approvals show "$1" --bytes | ssh-keygen -q -Y sign -n bastion -f "$dir/me" >"$dir/answer.sig" 2>/dev/null
	run bastion approve "$1" --signature "$dir/answer.sig"
}

last_question() {
	bastion sql --csv 'SELECT max(id) FROM approval' | tail -n 1 | tr -d '\r'
}

say "Two daemons: one on the machine (the box), one for whoever drives agents (the Host)."
start_daemon box serve
run bastion host init conductor
start_daemon host host serve
box=$(bastion sql --csv 'SELECT name FROM box' | tail -n 1 | tr -d '\r')

say "A person enrols an authenticator, and an SSH key, before anything can be approved."
show "bastion factor add totp --label phone"
secret=$(bastion factor add totp --label phone --json | jq -r .secret)
echo "(the secret goes into the authenticator; here oathtool plays it)"
ssh-keygen -q -t ed25519 -N '' -f "$dir/me" -C me
run bastion factor add ssh "$dir/me.pub" --label me

say "The Host invites the box; the code is carried over by hand."
show "bastion host invite $box | bastion pair -"
bastion host invite "$box" 2>/dev/null | bastion pair -
run bastion host boxes

say "The Host asks. Nobody has allowed that yet: it becomes a question to a person."
fails 77 bastion on "$box" observe:folders /usr 2 --uses 3

say "The person reads it and approves with the code that the authenticator shows."
run bastion approvals
question=$(last_question)
show "oathtool --totp -b SECRET | bastion approve $question"
oathtool --totp -b "$secret" | bastion approve "$question"

say "The same ask now runs, within the grant, and every step of it is in the database."
run bastion on "$box" observe:folders /usr 2

say "Another folder is outside the grant."
fails 126 bastion on "$box" observe:folders /etc 2

# A listener with a certificate to look at.
port=8443
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=demo.example -days 30 -keyout "$dir/tls.key" \
	-out "$dir/tls.crt" 2>/dev/null
openssl s_server -quiet -accept 127.0.0.1:$port -key "$dir/tls.key" -cert "$dir/tls.crt" </dev/null >/dev/null 2>&1 &
listener=$!

say "The other questions about a machine: ask, approve (by signature), ask again."
for ask in "observe:journal ssh 15" "observe:logins 24" "observe:cert $port demo.example"; do
	# shellcheck disable=SC2086 # words of one ask
	fails 77 bastion on "$box" $ask
	approve_by_key "$(last_question)"
	# shellcheck disable=SC2086
	show bastion on "$box" $ask
	# shellcheck disable=SC2086
	bastion on "$box" $ask || echo "(exit $?: this machine could not answer, and says so)"
done

say "What the database remembers."
run bastion grants --all
run bastion sql 'SELECT id, op, state, exit_code, approved_by, approved_with FROM run_history'
run bastion sql 'SELECT seq, who, entity, action FROM audit ORDER BY seq DESC LIMIT 8'

say "Both daemons stop when told, and leave nothing open."
for pid in $pids; do
	show "kill $pid"
	kill "$pid"
	wait "$pid" || true
done
pids=
run bastion status || true

say "The history is a chain, sealed with the machine's key."
run bastion audit verify

say "Somebody edits one row of a copy: the chain breaks there."
show "sqlite3 bastion.db '.backup copy.db'; sqlite3 copy.db (an UPDATE of one audit row)"
sqlite3 "$BASTION_STATE/bastion.db" ".backup $dir/copy.db"
sqlite3 "$dir/copy.db" >"$dir/trigger.sql" "SELECT sql || ';' FROM sqlite_schema WHERE name = 'audit_no_update'"
sqlite3 "$dir/copy.db" "DROP TRIGGER audit_no_update;
    UPDATE audit SET who = 'person:somebody(0)' WHERE seq = 5;"
sqlite3 "$dir/copy.db" <"$dir/trigger.sql"
fails 1 bastion audit verify "$dir/copy.db"

echo
echo "demo: done"
