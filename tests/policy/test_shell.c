/* test_shell.c: what bash and dash take, we read; and we read it as they do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/policy/command.h"

static const struct shell_limits limits = {1 << 20, 100, 100000};

static enum shell_state
state_of(const char *text, size_t len, enum shell_dialect dialect)
{
	struct shell *s = shell_parse(text, len, dialect, &limits);
	enum shell_state state;

	assert_non_null(s);
	state = s->state;
	shell_free(s);
	return state;
}

/* Whether ${shell} takes the text, and says nothing about it (bash warns of what it mends). */
static bool
takes(const char *shell, const char *text, size_t len)
{
	int in[2], status;
	char said[64];
	ssize_t got;
	int err[2];
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	assert_true((pid = fork()) != -1);
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(err[1], STDERR_FILENO);
		execlp(shell, shell, "-n", (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(err[1]);
	/* Small texts alone: they fit the pipe. */
	assert_int_equal(write(in[1], text, len), (ssize_t)len);
	close(in[1]);
	got = read(err[0], said, sizeof(said));
	close(err[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == 0;
}

static const char *const pieces[] = {"if", "then", "else", "elif", "fi", "for", "in", "do", "done",
    "while", "case", "esac", "{", "}", "(", ")", "((", "))", "!", "time", "function", "a", "echo",
    "x=1", "x=(1 2)", "a[1]=2", "$x", "${x:-y}", "\"q\"", "'s'", "\"$(ls)\"", "$(ls)", "`ls`",
    "$((1+2))", "$'e'", "<(ls)", ">f", "2>&1", "&>f", "<<<w", ";", ";;", "&", "&&", "||", "|", "\n",
    "f()", "\\\n", "#c\n", "*", "select", "coproc", "${x#'}'}", "{a,b}", "\"${x:-'a'}\""};

/* Here-documents with what is in them stand alone: shells look into them when they run them. */
static const char *const frames[] = {"if @;then @;fi", "for i in @;do @;done",
    "case @ in @) @;; esac", "{ @; }", "( @ )", "f() { @; }", "@ | @", "@ && @", "@; @",
    "while @; do @; done", "@ &", "! @", "function g { @; }", "cat <<'E'\n$(@\nE\n", "@\n@"};

static void
grow(char *out, size_t size, unsigned *seed, unsigned deep)
{
	const char *frame;
	int n;

	if (deep < 3 && rand_r(seed) % 2 == 0) {
		frame = frames[(unsigned)rand_r(seed) % (sizeof(frames) / sizeof(frames[0]))];
		for (; *frame != '\0'; frame++)
			if (*frame == '@')
				grow(out, size, seed, deep + 1);
			else
				strncat(out, frame, 1);
		return;
	}
	for (n = rand_r(seed) % 3; n >= 0; n--)
		if (strlen(out) + 64 < size) {
			strcat(out,
			    pieces[(unsigned)rand_r(seed) % (sizeof(pieces) / sizeof(pieces[0]))]);
			strcat(out, n > 0 ? " " : "");
		}
}

/* Random scripts: what the shell takes is good. */
static void
compare(const char *shell, enum shell_dialect dialect, unsigned seed)
{
	char text[4096];
	int i, taken = 0;

	for (i = 0; i < 250; i++) {
		text[0] = '\0';
		grow(text, sizeof(text) - 512, &seed, 0);
		if (!takes(shell, text, strlen(text)))
			continue;
		taken++;
		if (state_of(text, strlen(text), dialect) != SHELL_GOOD)
			fail_msg("%s takes: %s", shell, text);
	}
	/* Otherwise nothing was compared: there is no such shell here. */
	if (taken < 10)
		skip();
}

static void
what_bash_takes(void **state)
{
	(void)state;
	compare("bash", SHELL_BASH, 3);
}

static void
what_dash_takes(void **state)
{
	(void)state;
	compare("dash", SHELL_POSIX, 5);
}

/* Pieces of which random scripts are made that may run the function "mark". */
static const char *const shards[] = {"'", "\"", "`", "$(", ")", "(", "{ ", "}", "\\", "\n", ";",
    "&", "|", "#", "$", "$'", "$\"", "<<E\n", "\nE\n", "<<'E'\n", "$((", "))", "((", "${x:-", "]",
    "[[ ", " ]]", "=", "a", "x", " ", " ", "mark", "mark", "\nmark\n", "$(mark)", "`mark`",
    ";mark;", "<", "<(", "if ", "; then ", "; fi", "case a in a) ", ";; esac", "\\\n", "!", "*",
    "{a,b}", "$x", "$IFS", "1", "<<-E\n\t", "<<<", "time ", "coproc ", "eval ", "x=", "a[", "]=1 ",
    "&&", "||", "'mark'", "\"mark\"", "'$(mark)'", "\"$(mark)\"", "$'\\'", "'\\''"};

/* Run ${script} in ${shell}, where nothing but builtins and "mark" can be run; whether that ran. */
static bool
marks(const char *shell, const char *script)
{
	char text[1024], byte;
	int fds[2], null;
	pid_t pid;
	bool ran;

	snprintf(text, sizeof(text), "PATH=/nonexistent\nmark() { echo x >&9; }\n%s", script);
	assert_int_equal(pipe(fds), 0);
	assert_true((pid = fork()) != -1);
	if (pid == 0) {
		setpgid(0, 0);
		null = open("/dev/null", O_RDWR);
		dup2(fds[1], 9);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		close(fds[0]);
		alarm(5);
		if (chdir("/proc") == 0) /* where no redirection makes a file */
			execlp(shell, shell, "-c", text, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &(int){0}, 0), pid);
	/* What it left in the background holds the pipe open. */
	kill(-pid, SIGKILL);
	ran = read(fds[0], &byte, 1) == 1;
	close(fds[0]);
	return ran;
}

/* Whether the look at ${script} finds "mark", or says that it cannot tell. */
static bool
finds_mark(const char *script)
{
	struct command_report r;
	size_t i;

	assert_int_equal(command_look(script, strlen(script), &limits, &r), 0);
	for (i = 0; i < r.program_count; i++)
		if (strcmp(r.programs[i], "mark") == 0)
			return true;
	return (r.categories & (RISK_UNPARSEABLE | RISK_UNSEEN_SCRIPT | RISK_UNKNOWN_PROGRAM)) != 0;
}

/* What a real shell runs of a random script is found in its text, or the text is not clean. */
static void
what_shells_run_is_seen(void **state)
{
	static const char *const shells[] = {"bash", "dash"};
	unsigned seed = 17;
	char script[256];
	int i, j, ran = 0;

	(void)state;
	if (!marks("bash", "mark") || !marks("dash", "mark"))
		skip();
	for (i = 0; i < 600; i++) {
		script[0] = '\0';
		for (j = 2 + rand_r(&seed) % 13; j > 0; j--)
			strcat(script,
			    shards[(unsigned)rand_r(&seed) % (sizeof(shards) / sizeof(shards[0]))]);
		/* No function may get in the place of ours. */
		if (strstr(script, "mark") == NULL || strstr(script, "mark(") != NULL ||
		    strstr(script, "mark (") != NULL || finds_mark(script))
			continue;
		for (j = 0; j < 2; j++)
			if (marks(shells[j], script))
				fail_msg("%s runs mark in: %s", shells[j], script);
		ran++;
	}
	assert_true(ran > 0);
	assert_true(finds_mark("mark") && !finds_mark("echo mark"));
}

/* The scripts of this machine. */
static void
scripts_of_this_machine(void **state)
{
	static char text[1 << 16];
	glob_t found;
	size_t i, n, read_count = 0;
	ssize_t len;
	int fd;

	(void)state;
	memset(&found, 0, sizeof(found));
	glob("/usr/bin/*", 0, NULL, &found);
	glob("/etc/init.d/*", GLOB_APPEND, NULL, &found);
	glob("/usr/lib/git-core/*", GLOB_APPEND, NULL, &found);
	for (i = n = 0; i < found.gl_pathc && n < 60; i++) {
		if ((fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC)) == -1)
			continue;
		len = read(fd, text, sizeof(text));
		close(fd);
		if (len < 10 || len == (ssize_t)sizeof(text) || memcmp(text, "#!/bin/", 7) != 0 ||
		    memchr(text, '\0', (size_t)len) != NULL)
			continue;
		n++;
		if (memcmp(text + 7, "bash", 4) != 0 && memcmp(text + 7, "sh", 2) != 0)
			continue;
		read_count++;
		if (state_of(text, (size_t)len, SHELL_BASH) != SHELL_GOOD)
			fail_msg("%s", found.gl_pathv[i]);
	}
	globfree(&found);
	if (read_count == 0)
		skip();
}

/* The words of each command as the shell would hand them over, "|" between, ";" behind a command.
 */
static void
reads_as(enum shell_dialect dialect, const char *text, const char *want)
{
	struct shell *s = shell_parse(text, strlen(text), dialect, &limits);
	char got[1024] = "";
	size_t i;
	uint32_t j;

	assert_non_null(s);
	if (s->state != SHELL_GOOD)
		fail_msg("%s: not read", text);
	for (i = 0; i < s->command_count; i++) {
		for (j = 0; j < s->commands[i].count; j++) {
			strcat(got, j > 0 ? "|" : "");
			strcat(got, shell_text(s, &s->words[s->commands[i].first + j]));
		}
		strcat(got, ";");
	}
	if (strcmp(got, want) != 0)
		fail_msg("%s: read as %s", text, got);
	shell_free(s);
}

static void
words_are_read_as_shells_do(void **state)
{
	(void)state;
	reads_as(SHELL_BASH, "a 'b c' \"d e\"f\\ g", "a|b c|d ef g;");
	reads_as(SHELL_BASH, "a\\\nb # c\nd", "ab;d;");
	reads_as(SHELL_BASH, "a \"\\$x \\\" \\a\"", "a|$x \" \\a;");
	reads_as(SHELL_BASH, "a $'\\x41\\u00e9\\n\\'x'", "a|A\303\251\n'x;");
	reads_as(SHELL_BASH, "a $'x\\0y'z", "a|xz;");
	reads_as(SHELL_POSIX, "a $'x'", "a|$x;");
	reads_as(SHELL_BASH, "x=1 y='2 3' a b=4", "x=1|y=2 3|a|b=4;");
	reads_as(SHELL_BASH, "a > b 2>&1 c <<<d", "a|c;");
	reads_as(SHELL_BASH, "a;b&c&&d||e|f", "a;b;c;d;e;f;");
	reads_as(SHELL_BASH, "a $(b `c \\`d\\``) e", "a|$()|e;b|$();c|$();d;");
	reads_as(SHELL_BASH, "cat <<A <<-'B'\n$(x)\nA\n\ty\n\tB\nz", "cat;x;z;");
	reads_as(SHELL_BASH, "$((1 + $(a)))", "$(());a;");
	reads_as(SHELL_BASH, "$((a); (b))", "$();a;b;");
	reads_as(SHELL_POSIX, "((a))", "a;");
	reads_as(SHELL_BASH, "case x in (a|b) c;; *) d;& esac", "c;d;");
	reads_as(SHELL_BASH, "[[ a < b && $(c) =~ (x|y) ]] && d", "c;d;");
	reads_as(SHELL_BASH, "if a; then b; elif c; then d; else e; fi", "a;b;c;d;e;");
	reads_as(SHELL_BASH, "for ((i=0;i<$(a);i++)); do b; done", "a;b;");
	reads_as(SHELL_BASH, "echo if then fi", "echo|if|then|fi;");
	reads_as(SHELL_BASH, "a[$(b)]=c d", "a[]=c|d;b;");
	reads_as(SHELL_BASH, "x=(a $(b) c) d", "x=()|d;b;");
	reads_as(SHELL_BASH, "! time -p a | b", "a;b;");
	reads_as(SHELL_BASH, "", "");
}

/* What no shell takes is not read. */
static void
broken_scripts(void **state)
{
	static const char *const bad[] = {"'", "\"", "`", "$(", "${", "$((1", "(", ")", "{", "}",
	    "if a", "if a; then fi", "then", "a | | b", "a && && b", "& a", "; a", "for",
	    "case a in b", "a)", "<<", "a >", "f() ", "done", "[[ a", "(( 1", "a ( b",
	    "if; then a; fi", "a <<<"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (state_of(bad[i], strlen(bad[i]), SHELL_BASH) != SHELL_BROKEN)
			fail_msg("read: %s", bad[i]);
		assert_false(takes("bash", bad[i], strlen(bad[i])));
	}
	assert_int_equal(state_of("a\0b", 3, SHELL_BASH), SHELL_BROKEN);
}

/* Any nesting ends at the limit, on the stack that a thread has. */
static void
nesting_is_bounded(void **state)
{
	static const char *const opens[] = {"(", "$(", "`", "${a:-", "$((", "((", "{ ", "\"$(",
	    "if ", "while ", "f() ", "<(", "$[", "a=(", "case a in a) ", "coproc ", "function f ",
	    "\"${a:-\"", "@(", "! ", "time "};
	static char text[1 << 20];
	size_t i, n, len;

	(void)state;
	for (i = 0; i < sizeof(opens) / sizeof(opens[0]); i++) {
		len = strlen(opens[i]);
		for (n = 0; n + len <= sizeof(text); n += len)
			memcpy(text + n, opens[i], len);
		state_of(text, n, SHELL_BASH);
		state_of(text, n, SHELL_POSIX);
	}
	memset(text, '(', 99);
	text[99] = 'a';
	memset(text + 100, ')', 99);
	assert_int_equal(state_of(text, 199, SHELL_POSIX), SHELL_COMPLEX);
	assert_int_equal(state_of(text + 80, 19 + 1 + 19, SHELL_POSIX), SHELL_GOOD);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words_are_read_as_shells_do),
	    cmocka_unit_test(broken_scripts),
	    cmocka_unit_test(nesting_is_bounded),
	    cmocka_unit_test(what_bash_takes),
	    cmocka_unit_test(what_dash_takes),
	    cmocka_unit_test(what_shells_run_is_seen),
	    cmocka_unit_test(scripts_of_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
