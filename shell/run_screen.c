/* run_screen.c: the person's terminal. */
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shell/run_screen.h"

#define LAST_MS 2000 /* for a terminal to take what the program said last */

static void on_tty(void *ctx, uint32_t events);
static void on_master(void *ctx, uint32_t events);

int
screen_open(struct screen *s, struct loop *loop, bool needed, struct refusal *refusal)
{
	memset(s, 0, sizeof(*s));
	s->loop = loop;
	s->master = -1;
	s->tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (s->tty != -1 && tcgetattr(s->tty, &s->before) == 0)
		return 0;
	if (s->tty != -1)
		close(s->tty);
	s->tty = -1;
	if (!needed)
		return 0;
	return refusal_set(refusal, "run.ask", "there is no terminal to ask on");
}

/* Only who is in the foreground sets a terminal; others would be stopped. */
static void
set_raw(struct screen *s, bool raw)
{
	struct termios t = s->before;

	if (s->tty == -1 || s->raw == raw || tcgetpgrp(s->tty) != getpgrp())
		return;
	if (raw)
		cfmakeraw(&t);
	if (tcsetattr(s->tty, TCSADRAIN, &t) == 0)
		s->raw = raw;
}

/*
 * Bytes.
 */

/* Return whether there is anything left to write. */
static bool
way_write(struct screen_way *w)
{
	ssize_t n;

	while (w->off < w->len) {
		if ((n = write(w->to, w->bytes + w->off, w->len - w->off)) == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return true;
		if (n <= 0)
			break;
		w->off += (size_t)n;
	}
	w->off = w->len = 0;
	return false;
}

/* Return whether it goes on: the other end may have gone. */
static bool
way_read(struct screen_way *w)
{
	ssize_t n;

	if (w->len > 0)
		return true;
	n = read(w->from, w->bytes, sizeof(w->bytes));
	if (n > 0)
		w->len = (size_t)n;
	return n > 0 || (n == -1 && (errno == EAGAIN || errno == EINTR));
}

/* What is waited for follows from what is left. */
static void
watch(struct screen *s)
{
	bool out = s->out.len > 0, in = s->in.len > 0, keys = s->asking || (s->typed && !in);

	if (s->tty != -1)
		loop_mod(s->loop, s->tty,
		    (keys ? (uint32_t)EPOLLIN : 0) | (out && !s->asking ? (uint32_t)EPOLLOUT : 0));
	if (s->master != -1)
		loop_mod(s->loop, s->master,
		    (out || s->asking ? 0 : (uint32_t)EPOLLIN) | (in ? (uint32_t)EPOLLOUT : 0));
}

static void
take_key(struct screen *s)
{
	char key;

	if (read(s->tty, &key, 1) != 1)
		return;
	screen_asked(s);
	s->answered(s->ctx, key);
}

static void
on_tty(void *ctx, uint32_t events)
{
	struct screen *s = ctx;

	if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
		loop_del(s->loop, s->tty);
		return;
	}
	if (s->asking) {
		if ((events & EPOLLIN) != 0)
			take_key(s);
		return;
	}
	if ((events & EPOLLOUT) != 0)
		way_write(&s->out);
	if ((events & EPOLLIN) != 0 && s->typed && way_read(&s->in))
		way_write(&s->in);
	watch(s);
}

static void
on_master(void *ctx, uint32_t events)
{
	struct screen *s = ctx;

	if ((events & EPOLLOUT) != 0)
		way_write(&s->in);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !s->asking) {
		/* Nobody holds the program's end: what was said is said. */
		if (!way_read(&s->out) || ((events & EPOLLHUP) != 0 && (events & EPOLLIN) == 0)) {
			loop_del(s->loop, s->master);
			return;
		}
		way_write(&s->out);
	}
	watch(s);
}

int
screen_begins(const struct screen *s, struct sandbox_terminal *t)
{
	t->settings = s->before;
	return ioctl(s->tty, TIOCGWINSZ, &t->size);
}

int
screen_join(struct screen *s, int master, bool typed)
{
	int flags = fcntl(master, F_GETFL);

	if (flags == -1 || fcntl(master, F_SETFL, flags | O_NONBLOCK) == -1)
		return -1;
	s->master = master;
	s->typed = typed;
	s->out.from = s->in.to = master;
	s->out.to = s->in.from = s->tty;
	if (typed)
		set_raw(s, true);
	if (loop_add(s->loop, master, EPOLLIN, on_master, s) != 0 ||
	    loop_add(s->loop, s->tty, typed ? EPOLLIN : 0, on_tty, s) != 0)
		return -1;
	return 0;
}

void
screen_resized(struct screen *s)
{
	struct winsize size;

	if (s->master != -1 && ioctl(s->tty, TIOCGWINSZ, &size) == 0)
		ioctl(s->master, TIOCSWINSZ, &size);
}

/*
 * Questions.
 */

void
screen_ask(struct screen *s, const char *question, void (*answered)(void *ctx, char key), void *ctx)
{
	s->answered = answered;
	s->ctx = ctx;
	s->asking = true;
	set_raw(s, true);
	tcflush(s->tty, TCIFLUSH); /* typed before the question is no answer */
	if (s->master == -1)
		loop_add(s->loop, s->tty, EPOLLIN, on_tty, s);
	watch(s);
	if (dprintf(s->tty, "\r\n%s ", question) < 0)
		return;
}

void
screen_asked(struct screen *s)
{
	if (!s->asking)
		return;
	s->asking = false;
	if (dprintf(s->tty, "\r\n") < 0)
		s->asking = false;
	if (s->master == -1)
		loop_del(s->loop, s->tty);
	if (!s->typed)
		set_raw(s, false);
	watch(s);
}

void
screen_say(const struct screen *s, const char *text)
{
	fprintf(stderr, "%s%s", text, s->raw ? "\r\n" : "\n");
}

void
screen_close(struct screen *s)
{
	struct pollfd p;

	if (s->master != -1) {
		loop_del(s->loop, s->master);
		do {
			p = (struct pollfd){.fd = s->tty, .events = POLLOUT};
			if (way_write(&s->out) && poll(&p, 1, LAST_MS) <= 0)
				break;
		} while (s->out.len > 0 || (way_read(&s->out) && s->out.len > 0));
	}
	if (s->tty == -1)
		return;
	loop_del(s->loop, s->tty);
	set_raw(s, false);
	close(s->tty);
	s->tty = -1;
}
