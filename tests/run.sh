#!/bin/sh
# run.sh BUILD SUITE...: run the suites, two at a time, and say how many tests passed.
#
# A test that is skipped says why.  One that proves a claim of schema/README.md may not be: its name stands
# there in the table of claims.
set -u

build=$1
shift
logs=$build/log
rm -rf "$logs"
mkdir -p "$logs"
: >"$logs/skipped"
export BASTION="$build/bastion" ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1

# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\n' "$@" | xargs -P 2 -I SUITE sh -c '
	log=$1/$(echo "$2" | sed "s|^$3/tests/||; s|/|-|g")
	start=$(date +%s)
	timeout -k 10 900 "$2" >"$log" 2>&1 </dev/null
	code=$?
	echo "$code" >"$log.code"
	ok=$(grep -c "^\[       OK \]" "$log")
	echo "$(basename "$log"): $ok passed, exit $code, $(($(date +%s) - start)) s"
' sh "$logs" SUITE "$build"

failed=0 passed=0 skipped=0
for suite; do
	log=$logs/$(echo "$suite" | sed "s|^$build/tests/||; s|/|-|g")
	code=$(cat "$log.code" 2>/dev/null || echo 1)
	p=$(grep -c '^\[       OK \]' "$log")
	# cmocka names a failure when it happens and again at the end.
	f=$(sed -nE 's/^\[  (FAILED|ERROR)  *\] ([a-z_0-9]*)$/\2/p' "$log" | sort -u | wc -l)
	s=$(grep '^\[  SKIPPED \] [a-z_0-9]*$' "$log" | sort -u | wc -l)
	if [ "$code" != 0 ]; then
		[ "$f" -gt 0 ] || f=1
		echo "---- $suite ended with $code:"
		tail -n 60 "$log"
		# What failed comes last: a report of leaks after it may be long.
		echo "---- of $suite:"
		grep -n -B 3 -E '^\[  (FAILED|ERROR) |^\[   LINE ' "$log" | head -n 40
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	sed -n "s|^\[  SKIPPED \] \([a-z_0-9]*\)\$|\1 $suite|p" "$log" | sort -u >>"$logs/skipped"
done
while read -r name suite; do
	echo "skipped: $name ($suite)"
done <"$logs/skipped"
# A claim whose test did not pass, or is not there any more, is a failure.
awk -F '`' '/^\| .* \| `[a-z_0-9]*` \|$/ { print $(NF - 1) }' schema/README.md >"$logs/claims"
while read -r name; do
	if ! cat "$logs"/*-test_* | grep -q "^\[       OK \] $name$"; then
		echo "---- $name proves a claim of schema/README.md and did not pass"
		failed=$((failed + 1))
	fi
done <"$logs/claims"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
