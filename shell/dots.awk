# dots.awk: from the table of commands in sql_dot.c, make their section of the manual.

/^const struct dot dots\[\] = \{/ { inside = 1; next }
/^\};/ { inside = 0 }
inside { table = table $0 }

function roff(s)
{
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	sub(/^\./, "\\\\\\&.", s)
	return s
}

# Each row is {"name", "args", "about", handler}.
END {
	n = split(table, row, "{\"")
	for (i = 2; i <= n; i++) {
		split(row[i], part, "\"")
		if (part[1] == "" || part[5] == "") {
			print "dots.awk: this is no row: " row[i] > "/dev/stderr"
			exit 1
		}
		printf ".TP\n.BI \"%s\" \"%s\"\n%s.\n", roff(part[1]),
		    part[3] == "" ? "" : " " roff(part[3]), roff(part[5])
	}
	exit n < 10
}
