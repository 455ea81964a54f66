/* loop.c: epoll, one timerfd over a heap, one signalfd, one eventfd. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/loop.h"

#define BATCH     64 /* events fetched at once */
#define NO_PLACE  UINT32_MAX
#define NS_PER_MS 1000000
#define NS_PER_S  1000000000

struct source {
	void (*fn)(void *ctx, uint32_t events);
	void *ctx;
	bool dead;
	int closes;          /* the descriptor to close with it, or -1 */
	struct source *next; /* in the graveyard */
};

/* A timer lives in a slot; ${place} is where the heap has the slot's number. */
struct timer {
	int64_t due; /* ns of CLOCK_BOOTTIME */
	void (*fn)(void *ctx);
	void *ctx;
	uint32_t age; /* grows whenever the slot is freed: old ids then name nothing */
	uint32_t place;
	uint32_t next_free;
};

struct handler {
	void (*fn)(void *ctx, int signo);
	void *ctx;
};

struct post {
	void (*fn)(void *ctx);
	void *ctx;
	struct post *next;
};

struct loop {
	int epoll, timer, signals, posts;
	bool stopping;
	struct source **by_fd;
	size_t nfd;
	struct source *graveyard;
	struct timer *slots;
	uint32_t *heap;
	uint32_t nslots, nheap, first_free;
	int64_t armed; /* what the timerfd is set to; 0: nothing */
	sigset_t caught;
	struct handler handlers[_NSIG];
	pthread_mutex_t lock; /* of the two below */
	struct post *first, **last;
};

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t
loop_now(void)
{
	return now_ns() / NS_PER_MS;
}

/* Descriptors. */

static struct source *
source_of(const struct loop *loop, int fd)
{
	return fd >= 0 && (size_t)fd < loop->nfd ? loop->by_fd[fd] : NULL;
}

static int
grow_table(struct loop *loop, int fd)
{
	size_t n = loop->nfd ? loop->nfd : 64;
	struct source **grown;

	if ((size_t)fd < loop->nfd)
		return 0;
	while (n <= (size_t)fd)
		n *= 2;
	if ((grown = reallocarray(loop->by_fd, n, sizeof(*grown))) == NULL)
		return -1;
	memset(grown + loop->nfd, 0, (n - loop->nfd) * sizeof(*grown));
	loop->by_fd = grown;
	loop->nfd = n;
	return 0;
}

int
loop_add(struct loop *loop, int fd, uint32_t events, void (*fn)(void *, uint32_t), void *ctx)
{
	struct epoll_event ev = {.events = events};
	struct source *s;

	if (fd < 0 || source_of(loop, fd) != NULL) {
		errno = fd < 0 ? EBADF : EEXIST;
		return -1;
	}
	if (grow_table(loop, fd) == -1 || (s = calloc(1, sizeof(*s))) == NULL)
		return -1;
	s->fn = fn;
	s->ctx = ctx;
	s->closes = -1;
	ev.data.ptr = s;
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &ev) == -1) {
		free(s);
		return -1;
	}
	loop->by_fd[fd] = s;
	return 0;
}

int
loop_mod(struct loop *loop, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events};

	if ((ev.data.ptr = source_of(loop, fd)) == NULL) {
		errno = ENOENT;
		return -1;
	}
	return epoll_ctl(loop->epoll, EPOLL_CTL_MOD, fd, &ev);
}

void
loop_del(struct loop *loop, int fd)
{
	struct source *s;

	if ((s = source_of(loop, fd)) == NULL)
		return;
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
	loop->by_fd[fd] = NULL;

	/* The batch being handled may still point at it, so it is freed after the batch. */
	s->dead = true;
	s->next = loop->graveyard;
	loop->graveyard = s;
}

void
loop_close(struct loop *loop, int fd)
{
	struct source *s = source_of(loop, fd);

	if (s == NULL) {
		close(fd);
		return;
	}
	loop_del(loop, fd);
	s->closes = fd;
}

int
loop_pass(struct loop *loop, int fd, void (*fn)(void *, uint32_t), void *ctx)
{
	struct source *s;

	if ((s = source_of(loop, fd)) == NULL) {
		errno = ENOENT;
		return -1;
	}
	s->fn = fn;
	s->ctx = ctx;
	return 0;
}

static void
bury(struct loop *loop)
{
	struct source *s;

	while ((s = loop->graveyard) != NULL) {
		loop->graveyard = s->next;
		if (s->closes != -1)
			close(s->closes);
		free(s);
	}
}

/* Timers. */

static bool
heap_before(const struct loop *loop, uint32_t a, uint32_t b)
{
	return loop->slots[loop->heap[a]].due < loop->slots[loop->heap[b]].due;
}

static void
heap_put(struct loop *loop, uint32_t place, uint32_t slot)
{
	loop->heap[place] = slot;
	loop->slots[slot].place = place;
}

static void
heap_swap(struct loop *loop, uint32_t a, uint32_t b)
{
	uint32_t slot = loop->heap[a];

	heap_put(loop, a, loop->heap[b]);
	heap_put(loop, b, slot);
}

static void
heap_up(struct loop *loop, uint32_t i)
{
	for (; i > 0 && heap_before(loop, i, (i - 1) / 2); i = (i - 1) / 2)
		heap_swap(loop, i, (i - 1) / 2);
}

static void
heap_down(struct loop *loop, uint32_t i)
{
	uint32_t child;

	while ((child = 2 * i + 1) < loop->nheap) {
		if (child + 1 < loop->nheap && heap_before(loop, child + 1, child))
			child++;
		if (!heap_before(loop, child, i))
			return;
		heap_swap(loop, child, i);
		i = child;
	}
}

/* Take the timer in ${slot} out of the heap and free the slot. */
static void
timer_drop(struct loop *loop, uint32_t slot)
{
	struct timer *t = &loop->slots[slot];
	uint32_t place = t->place;

	loop->nheap--;
	if (place != loop->nheap) {
		heap_put(loop, place, loop->heap[loop->nheap]);
		heap_up(loop, place);
		heap_down(loop, place);
	}
	t->place = NO_PLACE;
	t->age++;
	t->next_free = loop->first_free;
	loop->first_free = slot;
}

static int
grow_timers(struct loop *loop)
{
	uint32_t i, n = loop->nslots ? loop->nslots * 2 : 16;
	struct timer *slots;
	uint32_t *heap;

	if (n > INT32_MAX) {
		errno = ENOMEM;
		return -1;
	}
	if ((heap = reallocarray(loop->heap, n, sizeof(*heap))) == NULL)
		return -1;
	loop->heap = heap;
	if ((slots = reallocarray(loop->slots, n, sizeof(*slots))) == NULL)
		return -1;
	loop->slots = slots;
	for (i = n; i-- > loop->nslots;) {
		slots[i] =
		    (struct timer){.age = 1, .place = NO_PLACE, .next_free = loop->first_free};
		loop->first_free = i;
	}
	loop->nslots = n;
	return 0;
}

uint64_t
loop_after(struct loop *loop, int64_t ms, void (*fn)(void *), void *ctx)
{
	struct timer *t;
	uint32_t slot;

	if (loop->first_free == NO_PLACE && grow_timers(loop) == -1)
		return 0;
	slot = loop->first_free;
	t = &loop->slots[slot];
	loop->first_free = t->next_free;
	if (ms < 0)
		ms = 0;
	if (ms > INT64_MAX / 4 / NS_PER_MS)
		ms = INT64_MAX / 4 / NS_PER_MS;
	t->due = now_ns() + ms * NS_PER_MS;
	t->fn = fn;
	t->ctx = ctx;
	heap_put(loop, loop->nheap, slot);
	heap_up(loop, loop->nheap++);
	return (uint64_t)t->age << 32 | slot;
}

void
loop_cancel(struct loop *loop, uint64_t id)
{
	uint32_t slot = (uint32_t)id;

	if (slot < loop->nslots && loop->slots[slot].age == id >> 32 &&
	    loop->slots[slot].place != NO_PLACE)
		timer_drop(loop, slot);
}

/* Set the timerfd to the earliest timer, if it is not already. */
static void
arm(struct loop *loop)
{
	struct itimerspec when = {.it_value = {0}};
	int64_t due = loop->nheap > 0 ? loop->slots[loop->heap[0]].due : 0;

	if (due == loop->armed)
		return;
	when.it_value.tv_sec = due / NS_PER_S;
	when.it_value.tv_nsec = due % NS_PER_S;
	timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &when, NULL);
	loop->armed = due;
}

/* Run what was due when we were called: a callback that sets a timer of 0 ms waits its turn. */
static void
on_timer(void *ctx, uint32_t events)
{
	struct loop *loop = ctx;
	int64_t now = now_ns();
	struct timer t;
	uint64_t ticks;

	(void)events;
	if (read(loop->timer, &ticks, sizeof(ticks)) == sizeof(ticks))
		loop->armed = 0;
	while (loop->nheap > 0 && !loop->stopping) {
		t = loop->slots[loop->heap[0]];
		if (t.due > now)
			return;
		timer_drop(loop, loop->heap[0]);
		t.fn(t.ctx);
	}
}

/* Signals. */

int
loop_signal(struct loop *loop, int signo, void (*fn)(void *, int), void *ctx)
{
	sigset_t one;

	if (signo <= 0 || signo >= _NSIG) {
		errno = EINVAL;
		return -1;
	}
	sigemptyset(&one);
	sigaddset(&one, signo);
	if ((errno = pthread_sigmask(SIG_BLOCK, &one, NULL)) != 0)
		return -1;
	sigaddset(&loop->caught, signo);
	loop->handlers[signo] = (struct handler){.fn = fn, .ctx = ctx};
	return signalfd(loop->signals, &loop->caught, 0) == -1 ? -1 : 0;
}

static void
on_signal(void *ctx, uint32_t events)
{
	struct loop *loop = ctx;
	struct signalfd_siginfo info;
	const struct handler *h;

	(void)events;
	if (read(loop->signals, &info, sizeof(info)) != sizeof(info) || info.ssi_signo >= _NSIG)
		return;
	h = &loop->handlers[info.ssi_signo];
	if (h->fn != NULL)
		h->fn(h->ctx, (int)info.ssi_signo);
}

/* Work from other threads. */

int
loop_post(struct loop *loop, void (*fn)(void *), void *ctx)
{
	struct post *p;
	uint64_t one = 1;

	if ((p = malloc(sizeof(*p))) == NULL)
		return -1;
	*p = (struct post){.fn = fn, .ctx = ctx};
	pthread_mutex_lock(&loop->lock);
	*loop->last = p;
	loop->last = &p->next;
	pthread_mutex_unlock(&loop->lock);

	/* Fails only when the counter is full, and then the loop is awake anyway. */
	while (write(loop->posts, &one, sizeof(one)) == -1 && errno == EINTR)
		continue;
	return 0;
}

static struct post *
take_posts(struct loop *loop)
{
	struct post *first;

	pthread_mutex_lock(&loop->lock);
	first = loop->first;
	loop->first = NULL;
	loop->last = &loop->first;
	pthread_mutex_unlock(&loop->lock);
	return first;
}

/* Put posts that a stop left over back in front of those that came meanwhile. */
static void
return_posts(struct loop *loop, struct post *first)
{
	struct post *end = first;
	uint64_t one = 1;

	if (first == NULL)
		return;
	while (end->next != NULL)
		end = end->next;
	pthread_mutex_lock(&loop->lock);
	end->next = loop->first;
	if (loop->first == NULL)
		loop->last = &end->next;
	loop->first = first;
	pthread_mutex_unlock(&loop->lock);
	while (write(loop->posts, &one, sizeof(one)) == -1 && errno == EINTR)
		continue;
}

static void
on_post(void *ctx, uint32_t events)
{
	struct loop *loop = ctx;
	struct post *p, *next;
	uint64_t count;

	(void)events;
	while (read(loop->posts, &count, sizeof(count)) == -1 && errno == EINTR)
		continue;
	for (p = take_posts(loop); p != NULL && !loop->stopping; p = next) {
		next = p->next;
		p->fn(p->ctx);
		free(p);
	}
	return_posts(loop, p);
}

/* The loop itself. */

static int
open_descriptors(struct loop *loop)
{
	if ((loop->epoll = epoll_create1(EPOLL_CLOEXEC)) == -1)
		return -1;
	loop->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer == -1)
		return -1;
	loop->signals = signalfd(-1, &loop->caught, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signals == -1)
		return -1;
	if ((loop->posts = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) == -1)
		return -1;
	if (loop_add(loop, loop->timer, EPOLLIN, on_timer, loop) == -1 ||
	    loop_add(loop, loop->signals, EPOLLIN, on_signal, loop) == -1 ||
	    loop_add(loop, loop->posts, EPOLLIN, on_post, loop) == -1)
		return -1;
	return 0;
}

struct loop *
loop_new(void)
{
	struct loop *loop;

	if ((loop = calloc(1, sizeof(*loop))) == NULL)
		return NULL;
	loop->epoll = loop->timer = loop->signals = loop->posts = -1;
	loop->first_free = NO_PLACE;
	loop->last = &loop->first;
	sigemptyset(&loop->caught);
	pthread_mutex_init(&loop->lock, NULL);
	if (open_descriptors(loop) == -1) {
		loop_free(loop);
		return NULL;
	}
	return loop;
}

static void
free_signals(struct loop *loop)
{
	struct signalfd_siginfo info;

	if (loop->signals == -1)
		return;
	while (read(loop->signals, &info, sizeof(info)) == sizeof(info))
		continue;
	pthread_sigmask(SIG_UNBLOCK, &loop->caught, NULL);
	close(loop->signals);
}

void
loop_free(struct loop *loop)
{
	struct post *p, *next;
	size_t i;

	if (loop == NULL)
		return;
	free_signals(loop);
	for (i = 0; i < loop->nfd; i++)
		free(loop->by_fd[i]);
	bury(loop);
	for (p = loop->first; p != NULL; p = next) {
		next = p->next;
		free(p);
	}
	if (loop->posts != -1)
		close(loop->posts);
	if (loop->timer != -1)
		close(loop->timer);
	if (loop->epoll != -1)
		close(loop->epoll);
	pthread_mutex_destroy(&loop->lock);
	free(loop->by_fd);
	free(loop->slots);
	free(loop->heap);
	free(loop);
}

/*
 * Descriptors are level-triggered unless asked otherwise: what a stop leaves of a batch comes
 * again, but an edge would be lost, so the whole batch is handled first.
 */
static void
dispatch(const struct epoll_event *events, int n)
{
	struct source *s;
	int i;

	for (i = 0; i < n; i++) {
		s = events[i].data.ptr;
		if (!s->dead)
			s->fn(s->ctx, events[i].events);
	}
}

int
loop_run(struct loop *loop)
{
	struct epoll_event events[BATCH];
	int n;

	while (!loop->stopping) {
		arm(loop);
		n = epoll_wait(loop->epoll, events, BATCH, -1);
		if (n == -1 && errno != EINTR)
			return -1;
		dispatch(events, n);
		bury(loop);
	}
	loop->stopping = false;
	return 0;
}

void
loop_stop(struct loop *loop)
{
	loop->stopping = true;
}
