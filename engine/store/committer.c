/* committer.c: a thread that commits, and where decisions go ahead one that waits for the disk. */
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <time.h>

#include "engine/store/committer.h"

#define SHARED_MOST 256 /* jobs of a batch; past it nothing is added */
#define PACE        2   /* times as long as the disk took last: from one batch ahead to the next */

struct queue {
	struct commit_job *first, **last;
};

/* What the loop is handed: it may come to it after the committer is gone. */
struct mail {
	struct committer *to; /* NULL: nobody any more */
};

struct committer {
	struct store *db; /* the thread's; NULL until something is to be decided */
	const struct home *home;
	enum store_role role;
	const struct store_keys *keys;
	char acting[64];
	struct loop *loop;
	pthread_t thread, disk;
	pthread_mutex_t mutex;
	pthread_cond_t work, wrote;
	struct queue asked, written, done; /* all under the mutex */
	bool ahead, over;                  /* the second: nothing more is written */
	int64_t took;                      /* ns of the disk with the last batch */
	struct queue taken; /* the thread's own: of what was asked, what is not in a batch yet */
	int64_t began;      /* likewise: the last batch, ns of CLOCK_MONOTONIC */
	struct mail *mail;  /* under way to the loop, or NULL */
	bool stopping, quiet;
	size_t pending; /* the loop's own */
};

static void
queue_add(struct queue *queue, struct commit_job *job)
{
	job->next = NULL;
	*queue->last = job;
	queue->last = &job->next;
}

static struct commit_job *
queue_take(struct queue *queue)
{
	struct commit_job *all = queue->first;

	queue->first = NULL;
	queue->last = &queue->first;
	return all;
}

static void
job_failed(struct commit_job *job, struct store *db)
{
	job->result = -1;
	job->refusal = *store_refusal(db);
}

static void
job_run(struct committer *c, struct commit_job *job)
{
	if (job->settle != NULL && (job->result = job->settle(c->db, job)) == 0)
		return;
	if (store_savepoint(c->db) != 0) {
		job_failed(job, c->db);
		return;
	}
	if ((job->result = job->run(c->db, job)) != 0) {
		store_undo(c->db);
		job_failed(job, c->db);
		return;
	}
	if (store_release(c->db) != 0)
		job_failed(job, c->db);
}

/* The next that is asked for, or NULL. */
static struct commit_job *
job_take(struct committer *c)
{
	struct commit_job *job;

	if (c->taken.first == NULL) {
		pthread_mutex_lock(&c->mutex);
		if (c->asked.first != NULL) {
			c->taken.last = c->asked.last;
			c->taken.first = queue_take(&c->asked);
		}
		pthread_mutex_unlock(&c->mutex);
	}
	if ((job = c->taken.first) == NULL)
		return NULL;
	if ((c->taken.first = job->next) == NULL)
		c->taken.last = &c->taken.first;
	return job;
}

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/*
 * A file whose fsync failed says nothing of what it has, and the log behind such a place is not
 * read: so nothing more may be built on it. The next start reads what is there.
 */
static void __attribute__((noreturn)) disk_failed(void)
{
	fprintf(stderr, "bastion: the disk did not take what was decided\n");
	abort();
}

/*
 * Reading the schema takes longer than all else that an actor does before it is ready, and many
 * never decide anything: so the connection is made for the first job.
 */
static int
store_there(struct committer *c, struct refusal *r)
{
	if (c->db != NULL)
		return 0;
	if ((c->db = store_open(c->home, c->role, c->keys, r)) == NULL)
		return -1;
	if (c->ahead && store_sync(c->db) != 0)
		disk_failed();
	store_acting(c->db, "%s", c->acting);
	if (c->quiet)
		store_quiet(c->db);
	return 0;
}

/* Without a database none of them is decided. */
static struct commit_job *
batch_refused(struct committer *c, const struct refusal *r)
{
	struct queue batch = {.last = &batch.first};
	struct commit_job *job;

	while ((job = job_take(c)) != NULL) {
		job->result = -1;
		job->refusal = *r;
		queue_add(&batch, job);
	}
	return batch.first;
}

/*
 * One transaction for all that is asked, and for what is asked while they run, within bounds.  If
 * it cannot be made durable, none of them was decided.
 */
static struct commit_job *
batch_run(struct committer *c)
{
	struct queue batch = {.last = &batch.first};
	struct refusal r = {0};
	struct commit_job *job;
	size_t n = 0;
	int failed;

	if (store_there(c, &r) == -1)
		return batch_refused(c, &r);
	c->began = now_ns();
	failed = c->ahead ? store_begin_soft(c->db) : store_begin(c->db);
	for (; n < SHARED_MOST && (job = job_take(c)) != NULL; n++) {
		queue_add(&batch, job);
		if (failed)
			job_failed(job, c->db);
		else
			job_run(c, job);
	}
	if (!failed && store_commit(c->db) != 0)
		for (job = batch.first; job != NULL; job = job->next)
			job_failed(job, c->db);
	return batch.first;
}

/* In the loop's thread: tell whoever asked. */
static void
deliver(struct committer *c)
{
	struct commit_job *job, *next;

	pthread_mutex_lock(&c->mutex);
	job = queue_take(&c->done);
	pthread_mutex_unlock(&c->mutex);
	for (; job != NULL; job = next) {
		next = job->next;
		c->pending--;
		job->done(job);
	}
}

static void
mail_arrives(void *ctx)
{
	struct mail *mail = ctx;
	struct committer *c = mail->to;

	if (c != NULL) {
		pthread_mutex_lock(&c->mutex);
		c->mail = NULL;
		pthread_mutex_unlock(&c->mutex);
		deliver(c);
	}
	free(mail);
}

/* Under the mutex.  What was decided is durable: without memory to say so, a new process does. */
static void
mail_send(struct committer *c)
{
	if (c->mail != NULL || c->stopping)
		return;
	if ((c->mail = malloc(sizeof(*c->mail))) == NULL)
		abort();
	c->mail->to = c;
	if (loop_post(c->loop, mail_arrives, c->mail) != 0)
		abort();
}

static void
queue_add_all(struct queue *queue, struct commit_job *batch)
{
	struct commit_job *next;

	for (; batch != NULL; batch = next) {
		next = batch->next;
		queue_add(queue, batch);
	}
}

/* Of a batch that is durable, or that failed as a whole. */
static void
hand_back(struct committer *c, struct commit_job *batch)
{
	pthread_mutex_lock(&c->mutex);
	queue_add_all(&c->done, batch);
	mail_send(c);
	pthread_mutex_unlock(&c->mutex);
}

/* Of a batch that is written: the disk is waited for elsewhere. */
static void
hand_on(struct committer *c, struct commit_job *batch)
{
	pthread_mutex_lock(&c->mutex);
	queue_add_all(&c->written, batch);
	pthread_cond_signal(&c->wrote);
	pthread_mutex_unlock(&c->mutex);
}

static void *
disk_thread(void *ctx)
{
	struct committer *c = ctx;
	struct commit_job *batch;
	int64_t began;

	pthread_mutex_lock(&c->mutex);
	for (;;) {
		while (c->written.first == NULL && !c->over)
			pthread_cond_wait(&c->wrote, &c->mutex);
		if ((batch = queue_take(&c->written)) == NULL)
			break;
		pthread_cond_signal(&c->work);
		pthread_mutex_unlock(&c->mutex);
		began = now_ns();
		if (store_sync(c->db) != 0)
			disk_failed();
		pthread_mutex_lock(&c->mutex);
		c->took = now_ns() - began;
		queue_add_all(&c->done, batch);
		mail_send(c);
	}
	pthread_mutex_unlock(&c->mutex);
	return NULL;
}

/* Until it is time for the next batch ahead: one that waits for the disk is enough, and few large
 * ones are less work than many small ones.  Under the mutex. */
static void
pace(struct committer *c)
{
	int64_t until;
	struct timespec ts;

	while (c->written.first != NULL && !c->stopping)
		pthread_cond_wait(&c->work, &c->mutex);
	until = c->began + PACE * c->took;
	ts = (struct timespec){.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
	while (!c->stopping && now_ns() < until)
		pthread_cond_timedwait(&c->work, &c->mutex, &ts);
}

/* Return whether there is something to decide; false once it is over. */
static bool
work_wait(struct committer *c)
{
	bool there;

	pthread_mutex_lock(&c->mutex);
	while (c->taken.first == NULL && c->asked.first == NULL && !c->stopping)
		pthread_cond_wait(&c->work, &c->mutex);
	if (c->ahead)
		pace(c);
	there = c->taken.first != NULL || c->asked.first != NULL;
	pthread_mutex_unlock(&c->mutex);
	return there;
}

static void *
committer_thread(void *ctx)
{
	struct committer *c = ctx;
	struct commit_job *batch;

	while (work_wait(c)) {
		batch = batch_run(c);
		if (c->ahead && c->db != NULL)
			hand_on(c, batch);
		else
			hand_back(c, batch);
	}
	return NULL;
}

struct committer *
committer_start(const struct home *home, enum store_role role, const struct store_keys *keys,
    const char *acting, struct loop *loop, struct refusal *r)
{
	pthread_condattr_t monotonic;
	struct committer *c;

	if ((c = calloc(1, sizeof(*c))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	c->home = home;
	c->role = role;
	c->keys = keys;
	snprintf(c->acting, sizeof(c->acting), "%s", acting);
	c->loop = loop;
	c->asked.last = &c->asked.first;
	c->written.last = &c->written.first;
	c->done.last = &c->done.first;
	c->taken.last = &c->taken.first;
	pthread_mutex_init(&c->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->work, &monotonic);
	pthread_cond_init(&c->wrote, NULL);
	if (pthread_create(&c->thread, NULL, committer_thread, c) == 0)
		return c;
	refusal_set(r, "store.failed", "no thread could be started");
	free(c);
	return NULL;
}

void
committer_submit(struct committer *c, struct commit_job *job)
{
	c->pending++;
	pthread_mutex_lock(&c->mutex);
	queue_add(&c->asked, job);
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->mutex);
}

void
committer_quiet(struct committer *c)
{
	c->quiet = true;
}

int
committer_ahead(struct committer *c, struct refusal *r)
{
	if (pthread_create(&c->disk, NULL, disk_thread, c) != 0)
		return refusal_set(r, "store.failed", "no thread could be started");
	c->ahead = true;
	return 0;
}

size_t
committer_pending(const struct committer *c)
{
	return c->pending;
}

/* What was written is durable; what is decided from here on is so at once. */
static void
disk_stop(struct committer *c)
{
	if (!c->ahead)
		return;
	pthread_mutex_lock(&c->mutex);
	c->over = true;
	pthread_cond_signal(&c->wrote);
	pthread_mutex_unlock(&c->mutex);
	pthread_join(c->disk, NULL);
	c->ahead = false;
}

void
committer_stop(struct committer *c)
{
	if (c == NULL)
		return;
	pthread_mutex_lock(&c->mutex);
	c->stopping = true;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->mutex);
	pthread_join(c->thread, NULL);
	disk_stop(c);
	if (c->mail != NULL)
		c->mail->to = NULL;
	/* Whoever is told may ask again. */
	for (deliver(c); c->asked.first != NULL || c->taken.first != NULL; deliver(c))
		hand_back(c, batch_run(c));
	store_close(c->db);
	pthread_cond_destroy(&c->work);
	pthread_cond_destroy(&c->wrote);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}
