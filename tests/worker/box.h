/* box.h: what the suites of the sandbox share: a world to run it in, as root and as a user. */
#ifndef TESTS_WORKER_BOX_H
#define TESTS_WORKER_BOX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/worker/sandbox.h"
#include "engine/worker/sandbox_system.h"
#include "engine/worker/tool.h"

#define BOX_NOBODY  65534
#define BOX_WAIT_MS 60000

/*
 * Who runs it: root as root; root on behalf of a user; or that user, who has no rights at all.  Not
 * as root there is only the last, who then is whoever runs the suite.
 */
enum box_who { BOX_ROOT, BOX_LENT, BOX_USER, BOX_WHOS };

static const char *const box_names[] = {"root", "root for a user", "a user"};

/* What became of a run, in memory that its keeper shares with the test. */
struct boxed {
	bool started;
	int code;
	char out[16384];
	struct refusal refusal;
	struct sandbox_report report;
	int64_t ms;    /* from the start to the end */
	int64_t value; /* of whatever box_then looked at */
	char text[16384];
};

struct box_world {
	char dir[64];
	struct sandbox_system system;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	size_t path_count;
	struct boxed *boxed;
	/* Called in the keeper after the end, with what it gathered; or NULL. */
	void (*then)(struct sandbox *box, struct boxed *boxed, void *ctx);
	/* Called in the keeper while the program runs. */
	void (*during)(struct sandbox *box, struct boxed *boxed, void *ctx);
	void *ctx;
};

static inline bool
box_can(enum box_who who)
{
	return geteuid() == 0 || who == BOX_USER;
}

static inline uid_t
box_uid(enum box_who who)
{
	return geteuid() != 0 ? geteuid() : who == BOX_ROOT ? 0 : BOX_NOBODY;
}

static inline void
box_make(struct box_world *w)
{
	struct sandbox_plan plan = {.uid = BOX_NOBODY};
	struct refusal refusal;

	memset(w, 0, sizeof(*w));
	strcpy(w->dir, "/tmp/bastion-box-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(chmod(w->dir, 0755), 0);
	w->boxed = mmap(
	    NULL, sizeof(*w->boxed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(w->boxed, MAP_FAILED);
	/* For a user: what root does not see is tried by itself. */
	assert_int_equal(sandbox_system(&w->system, &plan, w->paths, NULL, NULL, &refusal), 0);
	w->path_count = plan.path_count;
}

static inline void
box_drop(struct box_world *w)
{
	char command[128];

	sandbox_system_free(&w->system);
	munmap(w->boxed, sizeof(*w->boxed));
	snprintf(command, sizeof(command), "rm -rf --one-file-system '%s'", w->dir);
	assert_int_equal(system(command), 0);
}

static void box_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline void
box_shell(const char *fmt, ...)
{
	char command[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

/* Read what the program says until it and all that it started are gone, or time is up. */
static inline void
box_read(int fd, struct boxed *b)
{
	int64_t deadline = tool_now_ms() + BOX_WAIT_MS, left;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t n = 0;
	ssize_t got;

	while ((left = deadline - tool_now_ms()) > 0 && n < sizeof(b->out) - 1) {
		if (poll(&p, 1, (int)left) != 1)
			continue;
		if ((got = read(fd, b->out + n, sizeof(b->out) - 1 - n)) <= 0)
			break;
		n += (size_t)got;
	}
	b->out[n] = '\0';
}

static inline void
box_keep(struct box_world *w, struct sandbox_plan *plan, int out[2])
{
	struct boxed *b = w->boxed;
	struct sandbox box;
	int64_t began = tool_now_ms();
	int status;

	if (sandbox_start(plan, &box, &b->refusal) != 0)
		_exit(0);
	close(out[1]);
	b->started = sandbox_ready(&box, BOX_WAIT_MS, &b->refusal) == 0;
	b->report = box.report;
	if (b->started && w->during != NULL)
		w->during(&box, b, w->ctx);
	if (b->started) {
		box_read(out[0], b);
		waitpid(box.pid, &status, 0);
		b->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		sandbox_reaped(&box);
	} else {
		sandbox_end(&box, NULL);
	}
	b->ms = tool_now_ms() - began;
	if (b->started && w->then != NULL)
		w->then(&box, b, w->ctx);
	sandbox_free(&box);
	_exit(0);
}

/* Run ${plan} as ${who} and fill w->boxed.  A stdio of -1 is nothing, and the pipe to b->out. */
static inline struct boxed *
box_run(struct box_world *w, enum box_who who, struct sandbox_plan *plan)
{
	int out[2], status, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	memset(w->boxed, 0, sizeof(*w->boxed));
	w->boxed->code = -1;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	plan->uid = box_uid(who);
	plan->gid = geteuid() != 0 ? getegid() : box_uid(who);
	if (plan->stdio[0] == -1)
		plan->stdio[0] = null;
	plan->stdio[1] = plan->stdio[2] = out[1];
	if ((pid = fork()) == 0) {
		if (who == BOX_USER && geteuid() == 0 &&
		    (setgroups(0, NULL) == -1 ||
			setresgid(BOX_NOBODY, BOX_NOBODY, BOX_NOBODY) == -1 ||
			setresuid(BOX_NOBODY, BOX_NOBODY, BOX_NOBODY) == -1))
			_exit(1);
		box_keep(w, plan, out);
	}
	close(out[0]);
	close(out[1]);
	close(null);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("the keeper ended with status %d", status);
	return w->boxed;
}

/* A plan with the system's folders and ${extra} more paths to fill in at *${more}. */
static inline void
box_plan(struct box_world *w, struct sandbox_plan *plan, struct sandbox_path *room, size_t n)
{
	static char path[] = "PATH=/usr/bin:/bin", home[] = "HOME=/tmp", lang[] = "LC_ALL=C.UTF-8";
	static char *const env[] = {path, home, lang, NULL};

	memcpy(room + n, w->paths, w->path_count * sizeof(*room));
	*plan = (struct sandbox_plan){
	    .env = env,
	    .cwd = "/",
	    .paths = room,
	    .path_count = w->path_count + n,
	    .stdio = {-1, -1, -1},
	};
	sandbox_limits(&plan->limits);
}

#endif
