#!/bin/sh
# fixture.sh BASTION: play a real day and keep its two databases as fixtures/db/VERSION/.
#
# Run once for each schema version, with the build of that version, before the next migration is written.
# Needs to be root, for a host name that says nothing about the machine that it was made on.
set -eu

if [ "${FIXTURE_INSIDE:-}" != yes ]; then
	BASTION=$(realpath "$1")
	export BASTION FIXTURE_INSIDE=yes
	# shellcheck disable=SC2016 # expanded by the inner shell
	exec unshare --uts sh -c 'hostname fixture-box && exec sh "$0"' "$0"
fi

dir=/tmp/bastion-fixture
mkdir -m 0700 "$dir"
export BASTION_STATE="$dir/box/state" BASTION_RUN="$dir/box/run"
export BASTION_HOST_STATE="$dir/host/state" BASTION_HOST_RUN="$dir/host/run"
mkdir -m 0700 "$dir/box" "$dir/host" "$dir/tree"
box_pid='' host_pid=''

cleanup() {
	for pid in $box_pid $host_pid; do
		if kill "$pid" 2>/dev/null; then wait "$pid" || true; fi
	done
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

bastion() {
	"$BASTION" "$@"
}

# fails CODE COMMAND...: run what must end with CODE.
fails() {
	want=$1
	shift
	code=0
	"$@" >/dev/null 2>&1 || code=$?
	[ "$code" = "$want" ] || { echo "fixture: $*: exit $code, not $want"; exit 1; }
}

# serving LOG: wait until the daemon says that it serves.
serving() {
	i=0
	until grep -q serving "$1"; do
		i=$((i + 1))
		[ $i -le 200 ] || { cat "$1"; exit 1; }
		sleep 0.05
	done
}

serve_box() {
	"$BASTION" serve >"$dir/box.log" 2>&1 &
	box_pid=$!
	serving "$dir/box.log"
}

value() {
	bastion sql --csv "$1" | tail -n 1 | tr -d '\r'
}

sign() {
	bastion approvals show "$1" --bytes | ssh-keygen -q -Y sign -n bastion -f "$dir/me" >"$dir/answer.sig" 2>/dev/null
	bastion approve "$1" --signature "$dir/answer.sig" >/dev/null
}

ask() {
	bastion on fixture-box "$@" >/dev/null 2>&1
}

newest() {
	value 'SELECT max(id) FROM approval'
}

serve_box
bastion host init conductor >/dev/null
"$BASTION" host serve >"$dir/host.log" 2>&1 &
host_pid=$!
serving "$dir/host.log"

secret=$(bastion factor add totp --label phone --json | jq -r .secret)
ssh-keygen -q -t ed25519 -N '' -f "$dir/me" -C me
ssh-keygen -q -t ed25519 -N '' -f "$dir/old" -C old
bastion factor add ssh "$dir/me.pub" --label me >/dev/null
bastion factor add ssh "$dir/old.pub" --label old >/dev/null
bastion factor drop 3 >/dev/null
bastion host invite fixture-box 2>/dev/null | bastion pair - >/dev/null
bastion host invite next-box >/dev/null 2>&1
bastion host invite wrong-box >/dev/null 2>&1
bastion host withdraw wrong-box >/dev/null

# Asked, guessed wrong, approved, used up; outside the grant; approved by key and still good; denied; open.
fails 77 ask observe:folders "$dir/tree" 2 --uses 2
echo 000000 | fails 126 bastion approve "$(newest)"
oathtool --totp -b "$secret" | bastion approve "$(newest)" >/dev/null
ask observe:folders "$dir/tree" 2
fails 126 ask observe:folders "$dir" 2
ask observe:folders "$dir/tree" 2
fails 77 ask observe:folders "$dir/tree" 1 --uses 5 --for 30d
sign "$(newest)"
ask observe:folders "$dir/tree" 1
fails 77 ask observe:folders "$dir" 1 --uses 3 --anew
sign "$(newest)"
bastion grants drop "$(value 'SELECT max(id) FROM grant')" >/dev/null
fails 77 ask observe:cert 443
bastion deny "$(newest)" >/dev/null
bastion settings set audit.outbox 4
bastion settings set approval.ttl_ms 30d
bastion settings set audit.outbox 4096
fails 77 ask observe:cert 8443

# A daemon that died, and the one that said so; sealed at its end.
kill -9 "$box_pid"
wait "$box_pid" 2>/dev/null || true
serve_box
kill "$box_pid" "$host_pid"
wait "$box_pid" "$host_pid" || true
box_pid='' host_pid=''

version=$(value 'PRAGMA user_version')
out=fixtures/db/$version
mkdir -p "$out"
for side in box host; do
	[ ! -s "$dir/$side/state/bastion.db-wal" ] || { echo "fixture: $side has a log yet"; exit 1; }
	install -m 0600 "$dir/$side/state/bastion.db" "$out/$side.db"
	install -m 0600 "$dir/$side/state/bastion.key" "$out/$side.key"
done
ls -l "$out"
