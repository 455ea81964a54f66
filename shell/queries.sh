#!/bin/sh
# queries.sh: print C that holds the queries of shell/queries/ as they are (.incbin).
set -eu

printf '#include "shell/sql_query.h"\n'
for file in shell/queries/*.sql; do
	symbol=query_$(basename "$file" .sql | tr - _)
	printf '__asm__(".section .rodata\\n%s: .incbin \\"%s\\"\\n.byte 0\\n.previous");\n' "$symbol" "$file"
	printf 'extern const char %s[];\n' "$symbol"
done
printf 'const struct sql_query sql_queries[] = {\n'
for file in shell/queries/*.sql; do
	name=$(basename "$file" .sql)
	printf '    {"%s", query_%s},\n' "$name" "$(echo "$name" | tr - _)"
done
printf '    {NULL, NULL},\n};\n'
