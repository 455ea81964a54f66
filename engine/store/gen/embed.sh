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

# Tables before the rows that go into them, and what every family stands on first.
families=
for file in schema/*.sql; do
	case $file in
	schema/base.sql | schema/rows_*) ;;
	*) families="$families $file" ;;
	esac
done
# shellcheck disable=SC2086 # a list of names without spaces
table embedded_schema schema/base.sql $families schema/rows_*.sql
