#!/bin/sh
# embed.sh: print C that holds the SQL files of migrations/ and schema/ as they are (.incbin).
set -eu

# entry NAME FILE: the bytes of FILE, with a NUL behind them.
entry() {
	printf '__asm__(".section .rodata\\n%s_begin: .incbin \\"%s\\"\\n%s_end: .byte 0\\n.previous");\n' \
		"$1" "$2" "$1"
	printf 'extern const char %s_begin[], %s_end[];\n' "$1" "$1"
}

# table ARRAY FILE...: the array of what entry put there.
table() {
	array=$1
	shift
	for file; do
		entry "${array}_$(basename "$file" .sql)" "$file"
	done
	printf 'const struct embedded %s[] = {\n' "$array"
	for file; do
		name=$(basename "$file" .sql)
		printf '    {"%s", %s_%s_begin, %s_%s_end},\n' "$name" "$array" "$name" "$array" "$name"
	done
	printf '    {NULL, NULL, NULL},\n};\n'
}

printf '#include "engine/store/embed.h"\n'
table embedded_migration migrations/*.sql
# shellcheck disable=SC2046 # our own file names hold no spaces
table embedded_schema schema/base.sql $(ls schema/*.sql | grep -v -e /base.sql -e /rows_) schema/rows_*.sql
