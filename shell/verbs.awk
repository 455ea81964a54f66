# verbs.awk: from the comments "VERB: name" above the verbs, make their table (-v as=c, as=h),
# their sections of the manual (as=man), and completions (as=bash, as=zsh, as=fish).

/^ \* VERB: / {
	n++
	name[n] = substr($0, 10)
	part = "head"
	next
}
n && part && /^ \*\// {
	part = ""
	next
}
n && part {
	line = substr($0, 4)
	if (part == "head" && line == "")
		next
	if (part == "head" && line !~ /^usage: bastion /)
		fail(FILENAME ": the help of " name[n] " does not begin with its usage")
	if (part == "head")
		part = "usage"
	if (part == "usage" && line == "")
		part = "text"
	if (part == "usage")
		usage[n] = usage[n] line "\n"
	else if (line != "" || text[n] != "")
		text[n] = text[n] line "\n"
}

function fail(why)
{
	print why > "/dev/stderr"
	failed = 1
	exit 1
}

# The first sentence, without its full stop.
function summary(i,    s, at)
{
	s = text[i]
	if ((at = index(s, "\n\n")) > 0)
		s = substr(s, 1, at)
	gsub(/\n/, " ", s)
	sub(/ +$/, "", s)
	if ((at = index(s, ". ")) > 0)
		s = substr(s, 1, at)
	sub(/\.$/, "", s)
	return s
}

function c_string(s)
{
	gsub(/\\/, "\\\\", s)
	gsub(/"/, "\\\"", s)
	gsub(/\n/, "\\n\"\n\t \"", s)
	s = "\"" s "\""
	sub(/\n\t ""$/, "", s)
	return s
}

function identifier(s)
{
	gsub(/[ -]/, "_", s)
	return "verb_" s
}

# What can be typed behind a verb: the words and options of its usage.
function words(i,    s, count, list, j, w, seen, out)
{
	s = usage[i]
	gsub(/usage:|bastion/, " ", s)
	gsub(/[][|()=.,\n]/, " ", s)
	count = split(s, list, " ")
	for (j = 1; j <= count; j++) {
		w = list[j]
		if (w !~ /^(--)?[a-z][a-z-]*$/ || w in seen || index(" " name[i] " ", " " w " "))
			continue
		seen[w] = 1
		out = out (out == "" ? "" : " ") w
	}
	return out (out == "" ? "" : " ") "--help"
}

# First words of the table, each once; or the second words behind one.
function firsts(behind,    i, parts, seen, out, w)
{
	for (i = 1; i <= n; i++) {
		split(name[i], parts, " ")
		if (behind == "")
			w = parts[1]
		else if (parts[1] == behind && 2 in parts)
			w = parts[2]
		else
			continue
		if (w in seen)
			continue
		seen[w] = 1
		out = out (out == "" ? "" : " ") w
		delete parts
	}
	return out
}

function is_two(word,    i)
{
	for (i = 1; i <= n; i++) {
		if (index(name[i], word " ") == 1)
			return 1
	}
	return 0
}

function roff(s)
{
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	gsub(/'/, "\\(aq", s)
	sub(/^\./, "\\\\\\&.", s)
	return s
}

function single(s)
{
	gsub(/'/, "'\\''", s)
	return "'" s "'"
}

# Lines that stand further in are examples or lists: they stay as they are.
function man_text(s,    lines, count, j, inside)
{
	count = split(s, lines, "\n")
	for (j = 1; j < count; j++) {
		if (inside && lines[j] !~ /^ /) {
			print ".EE"
			inside = 0
		}
		if (!inside && lines[j] ~ /^ /) {
			print ".EX"
			inside = 1
		}
		if (lines[j] == "")
			print ".PP"
		else
			print roff(lines[j])
	}
	if (inside)
		print ".EE"
}

function write_c(    i)
{
	print "/* Made from the comments above the verbs: see shell/verbs.awk. */"
	print "#include <stddef.h>\n"
	print "#include \"shell/verb.h\"\n"
	print "const struct verb verbs[] = {"
	for (i = 1; i <= n; i++) {
		print "\t{" c_string(name[i]) ", " c_string(summary(i)) ","
		print "\t " c_string(usage[i] "\n" text[i]) ",\n\t " identifier(name[i]) "},"
	}
	print "\t{NULL, NULL, NULL, NULL}};"
}

function write_h(    i)
{
	print "/* Made from the comments above the verbs: see shell/verbs.awk. */"
	print "struct cli;"
	for (i = 1; i <= n; i++)
		print "int " identifier(name[i]) "(struct cli *cli, int argc, char **argv);"
}

function write_man(    i, lines, count, j)
{
	for (i = 1; i <= n; i++) {
		print ".SS " roff(name[i])
		print ".EX"
		count = split(usage[i], lines, "\n")
		for (j = 1; j < count; j++) {
			sub(/^(usage:|      ) /, "", lines[j])
			print roff(lines[j])
		}
		print ".EE\n.PP"
		man_text(text[i])
	}
}

function write_bash(    i)
{
	print "# bash completion for bastion, made from the help of its verbs"
	print "_bastion()\n{"
	print "\tlocal cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=''"
	print "\tcase $verb in"
	for (i = 1; i <= n; i++)
		if (index(name[i], " ") && !done[substr(name[i], 1, index(name[i], " ") - 1)]++)
			print "\t" substr(name[i], 1, index(name[i], " ") - 1) \
			    ") verb=\"$verb ${COMP_WORDS[2]}\" ;;"
	print "\tesac"
	print "\tif ((COMP_CWORD == 1)); then"
	print "\t\twords='" firsts("") "'"
	for (i in done) {
		print "\telif ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == " i " ]]; then"
		print "\t\twords='" firsts(i) "'"
	}
	print "\telse\n\t\tcase $verb in"
	for (i = 1; i <= n; i++)
		print "\t\t'" name[i] "') words='" words(i) "' ;;"
	print "\t\tesac\n\tfi"
	print "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")"
	print "}\ncomplete -o default -F _bastion bastion"
}

function write_zsh(    i, first)
{
	print "#compdef bastion"
	print "# zsh completion for bastion, made from the help of its verbs"
	print "local verb=$words[2]"
	print "if (( CURRENT == 2 )); then\n\tcompadd -- " firsts("") "\n\treturn\nfi"
	for (i = 1; i <= n; i++) {
		first = substr(name[i], 1, index(name[i], " ") - 1)
		if (first == "" || done[first]++)
			continue
		print "if [[ $verb == " first " ]]; then"
		print "\tif (( CURRENT == 3 )); then\n\t\tcompadd -- " firsts(first)
		print "\t\treturn\n\tfi\n\tverb=\"$verb $words[3]\"\nfi"
	}
	print "case $verb in"
	for (i = 1; i <= n; i++)
		print "(" single(name[i]) ") compadd -- " words(i) " ;;"
	print "esac\n_files"
}

function fish_words(i, when,    list, count, j)
{
	count = split(words(i), list, " ")
	for (j = 1; j <= count; j++) {
		if (list[j] ~ /^--/)
			print "complete -c bastion -n " single(when) " -l " substr(list[j], 3)
		else
			print "complete -c bastion -n " single(when) " -a " list[j]
	}
}

function write_fish(    i, parts, when)
{
	print "# fish completion for bastion, made from the help of its verbs"
	for (i = 1; i <= n; i++) {
		delete parts
		split(name[i], parts, " ")
		when = "__fish_seen_subcommand_from " parts[1]
		if (!is_two(parts[1]) || !done[parts[1]]++)
			print "complete -c bastion -f -n __fish_use_subcommand -a " parts[1] \
			    (2 in parts ? "" : " -d " single(summary(i)))
		if (2 in parts) {
			print "complete -c bastion -f -n " single(when) " -a " parts[2] \
			    " -d " single(summary(i))
			when = when "; and __fish_seen_subcommand_from " parts[2]
		}
		fish_words(i, when)
	}
}

END {
	if (failed)
		exit 1
	for (i = 1; i <= n; i++) {
		if (usage[i] == "" || summary(i) == "")
			fail("the help of " name[i] " has no usage or no text")
	}
	if (as == "c")
		write_c()
	else if (as == "h")
		write_h()
	else if (as == "man")
		write_man()
	else if (as == "bash")
		write_bash()
	else if (as == "zsh")
		write_zsh()
	else if (as == "fish")
		write_fish()
	else
		fail("verbs.awk: -v as= c, h, man, bash, zsh or fish")
}
