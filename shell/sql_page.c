/* sql_page.c: what is longer than the terminal goes to a pager. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/write.h"
#include "shell/sql_file.h"

/* Text is held back until it is longer than the terminal. */
struct page {
	char *held;
	size_t len;
	int height, width;
	int lines, column; /* that the text held takes on the terminal */
	pid_t pid;         /* of the pager; 0: none */
	int fd;            /* to it, or standard output where there is none; -1: still held */
};

static void
page_count(struct page *p, const char *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (bytes[i] == '\n' || p->column == p->width) {
			p->lines++;
			p->column = 0;
		}
		if (bytes[i] != '\n' && ((unsigned char)bytes[i] & 0xc0) != 0x80)
			p->column++;
	}
}

/* A pager minds Ctrl-C itself, and the end of its input not at all. */
static int
spawn_pager(pid_t *pid, int input)
{
	static char sh[] = "sh", c[] = "-c", less[] = "less", options[] = "-FRX";
	char *pager = getenv("PAGER");
	char *own[] = {less, options, NULL}, *given[] = {sh, c, pager, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t defaults;
	int rc;

	sigemptyset(&defaults);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
	rc = pager == NULL ? posix_spawnp(pid, less, &files, &attr, own, environ)
			   : posix_spawn(pid, "/bin/sh", &files, &attr, given, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return rc == 0 ? 0 : -1;
}

/* Begin to let the text go: to a pager, or without one to the terminal. */
static void
page_open(struct page *p)
{
	int ends[2];

	p->fd = STDOUT_FILENO;
	if (pipe2(ends, O_CLOEXEC) == -1)
		return;
	if (spawn_pager(&p->pid, ends[0]) == 0) {
		p->fd = ends[1];
	} else {
		p->pid = 0;
		close(ends[1]);
	}
	close(ends[0]);
}

static ssize_t
page_write(void *ctx, const char *bytes, size_t n)
{
	struct page *p = ctx;
	char *longer;

	if (p->fd != -1)
		return write_all(p->fd, bytes, n) == 0 ? (ssize_t)n : 0;
	if ((longer = realloc(p->held, p->len + n)) == NULL)
		return 0;
	p->held = longer;
	memcpy(p->held + p->len, bytes, n);
	p->len += n;
	page_count(p, bytes, n);
	if (p->lines < p->height)
		return (ssize_t)n;
	page_open(p);
	return write_all(p->fd, p->held, p->len) == 0 ? (ssize_t)n : 0;
}

static int
page_close(void *ctx)
{
	struct page *p = ctx;

	if (p->fd == -1)
		(void)write_all(STDOUT_FILENO, p->held, p->len);
	if (p->pid != 0) {
		close(p->fd);
		while (waitpid(p->pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
	free(p->held);
	free(p);
	return 0;
}

FILE *
sql_page(void)
{
	static const cookie_io_functions_t functions = {.write = page_write, .close = page_close};
	const char *pager = getenv("PAGER");
	struct winsize w = {0};
	struct page *p;
	FILE *f;

	fflush(stdout);
	if (pager != NULL && *pager == '\0')
		return NULL;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == -1 || w.ws_row < 2 || w.ws_col < 1)
		return NULL;
	if ((p = calloc(1, sizeof(*p))) == NULL)
		return NULL;
	p->fd = -1;
	p->height = w.ws_row; /* less the line of the prompt, plus the one that does not fit */
	p->width = w.ws_col;
	if ((f = fopencookie(p, "w", functions)) == NULL)
		free(p);
	return f;
}
