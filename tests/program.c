/* program.c: run the program under a test's eyes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/program.h"

#define WORDS_MAX 16
#define WAIT_MS   20000

const char *
program_path(void)
{
	static char path[PATH_MAX];
	const char *given = getenv("BASTION");
	char self[PATH_MAX - 32];
	ssize_t n;

	/* Some go to another folder before they run it. */
	if (given != NULL && *given != '\0' && path[0] == '\0' && realpath(given, path) == NULL)
		fail_msg("%s: %s", given, strerror(errno));
	if (path[0] != '\0')
		return path;
	if ((n = readlink("/proc/self/exe", self, sizeof(self) - 1)) == -1)
		fail_msg("/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../../bastion", self);
	return path;
}

static void
set_environment(const struct scratch *s)
{
	setenv("BASTION_STATE", s->home.state, 1);
	setenv("BASTION_HOST_STATE", s->home.state, 1);
	setenv("BASTION_RUN", s->home.run, 1);
	setenv("BASTION_HOST_RUN", s->home.run, 1);
	setenv("HOME", s->dir, 1);
	setenv("TERM", "xterm", 1);
	setenv("TZ", "UTC", 1);
	unsetenv("XDG_STATE_HOME");
	unsetenv("NO_COLOR");
}

/* ${path}: another program, by its name alone; NULL: ours. */
static void
become(const char *path, const char *const words[])
{
	char *argv[WORDS_MAX + 2];
	size_t i;

	argv[0] = strdup(path == NULL ? "bastion" : path);
	for (i = 0; words[i] != NULL && i < WORDS_MAX; i++)
		argv[i + 1] = strdup(words[i]);
	argv[i + 1] = NULL;
	if (path == NULL)
		execv(path = program_path(), argv);
	else
		execvp(path, argv);
	dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

/* A file without a name, for what a run reads and writes: no pipe that could fill. */
static int
nameless(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd == -1)
		fail_msg("/tmp: %s", strerror(errno));
	return fd;
}

static char *
whole(int fd, size_t *len)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char *text = malloc((size_t)end + 1);

	assert_non_null(text);
	assert_int_equal(pread(fd, text, (size_t)end, 0), end);
	text[end] = '\0';
	*len = (size_t)end;
	close(fd);
	return text;
}

static int
exit_code(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		fail_msg("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
collect(struct program *p, struct scratch *s, const char *path, const char *input,
    const char *const words[])
{
	int in = nameless(), out = nameless(), err = nameless();
	size_t len = input == NULL ? 0 : strlen(input), n;
	pid_t pid;

	if (len > 0)
		assert_int_equal(pwrite(in, input, len, 0), (ssize_t)len);
	if ((pid = fork()) == 0) {
		set_environment(s);
		dup2(in, STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		become(path, words);
	}
	p->code = exit_code(pid);
	close(in);
	p->out = whole(out, &p->len);
	p->err = whole(err, &n);
}

void
program_run(struct program *p, struct scratch *s, const char *input, const char *const words[])
{
	collect(p, s, NULL, input, words);
}

void
program_of(struct program *p, struct scratch *s, const char *const words[])
{
	collect(p, s, words[0], NULL, words + 1);
}

void
program_free(struct program *p)
{
	free(p->out);
	free(p->err);
	memset(p, 0, sizeof(*p));
}

void
program_talk(struct program_talk *t, struct scratch *s, const char *const words[])
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};

	t->len = 0;
	if ((t->pid = forkpty(&t->fd, NULL, NULL, &size)) == 0) {
		if (s != NULL)
			set_environment(s);
		become(NULL, words);
	}
	if (t->pid == -1)
		fail_msg("forkpty: %s", strerror(errno));
}

void
program_type(struct program_talk *t, const char *text)
{
	assert_int_equal(write(t->fd, text, strlen(text)), (ssize_t)strlen(text));
}

void
program_expect(struct program_talk *t, const char *text)
{
	struct pollfd ready = {.fd = t->fd, .events = POLLIN};
	const char *found;
	ssize_t n;

	t->seen[t->len] = '\0';
	while ((found = strstr(t->seen, text)) == NULL) {
		n = -1;
		if (poll(&ready, 1, WAIT_MS) == 1)
			n = read(t->fd, t->seen + t->len, sizeof(t->seen) - t->len - 1);
		if (n <= 0)
			fail_msg("\"%s\" was not shown, but: %s", text, t->seen);
		t->len += (size_t)n;
		t->seen[t->len] = '\0';
	}
	t->len -= (size_t)(found - t->seen) + strlen(text);
	memmove(t->seen, found + strlen(text), t->len + 1);
}

int
program_over(struct program_talk *t)
{
	ssize_t n;
	int code;

	do {
		if (t->len + 1 == sizeof(t->seen))
			t->len = 0; /* its last words are enough */
		if ((n = read(t->fd, t->seen + t->len, sizeof(t->seen) - t->len - 1)) > 0)
			t->len += (size_t)n;
	} while (n > 0);
	t->seen[t->len] = '\0';
	code = exit_code(t->pid);
	close(t->fd);
	return code;
}

void
program_ends(struct program_talk *t, int code)
{
	int ended = program_over(t);

	if (ended != code)
		fail_msg("it ended with %d, not %d, and said: %s", ended, code, t->seen);
}
