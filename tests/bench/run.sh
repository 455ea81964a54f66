#!/bin/sh
# run.sh BUILD: run every bench and print one table: ours, the peer in the same run, their ratio, our target.
#
# A bench prints lines of: name | ours | peer | ratio (how much slower we are) | target. It ends with another code
# than 0 where a target is missed: the others still run, and so does this in the end.
set -u

build=$1
missed=0
row='%-52s %12s %12s %7s  %s\n'
# shellcheck disable=SC2059 # one format for all rows
printf "$row" what ours peer ratio target
for bench in "$build"/tests/bench/bench_*; do
	case $bench in *.o | *.d) continue ;; esac
	lines=$("$bench" 2>/dev/null) || missed=1
	printf '%s\n' "$lines" | awk -F ' [|] |\t' -v row="$row" 'NF >= 4 { printf row, $1, $2, $3, $4, $5 }'
done
exit $missed
