#!/bin/sh
# run.sh BUILD: run every bench and print one table: ours, the peer in the same run, their ratio, our target.
#
# A bench prints lines of: name, ours, peer, ratio (how much slower we are), target, with tabs between.
set -eu

build=$1
{
	printf 'what\tours\tpeer\tratio\ttarget\n'
	for bench in "$build"/tests/bench/bench_*; do
		case $bench in *.o | *.d) continue ;; esac
		"$bench"
	done
} | awk -F '\t' '{ printf "%-40s %14s %14s %7s  %s\n", $1, $2, $3, $4, $5; fflush() }'
