/* committer.c: a thread that commits. */
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <time.h>

#include "engine/store/committer.h"

struct queue {
	struct commit_job *first, **last;
};

/* What the loop is handed: it may come to it after the committer is gone. */
struct mail {
	struct committer *to; /* NULL: nobody any more */
};

struct committer {
	struct store *db;
	struct loop *loop;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t work;
	struct queue asked, done; /* both under the mutex */
	struct mail *mail;        /* under way to the loop, or NULL */
	bool stopping;
	bool brief;        /* set before the first job */
	int64_t commit_ns; /* how long the last commit took; the thread's own */
	size_t pending;    /* the loop's own */
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

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Whether ${job} is the last of its batch: those behind it then stand in front of the next. */
static bool
is_enough(const struct committer *c, const struct commit_job *job, int64_t began)
{
	return c->brief && job->next != NULL && now_ns() - began >= c->commit_ns;
}

/*
 * One transaction for all of them.  If it cannot be made durable, none of them was decided.
 * Return what was left of them for the next, and cut it off.
 */
static struct commit_job *
batch_run(struct committer *c, struct commit_job *batch)
{
	struct commit_job *job, *rest = NULL;
	int64_t began;
	int failed;

	failed = store_begin(c->db);
	began = now_ns();
	for (job = batch; job != NULL; job = job->next) {
		if (failed)
			job_failed(job, c->db);
		else
			job_run(c, job);
		if (is_enough(c, job, began)) {
			rest = job->next;
			job->next = NULL;
		}
	}
	began = now_ns();
	if (!failed && store_commit(c->db) != 0)
		for (job = batch; job != NULL; job = job->next)
			job_failed(job, c->db);
	c->commit_ns = now_ns() - began;
	return rest;
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
hand_back(struct committer *c, struct commit_job *batch)
{
	struct commit_job *next;

	pthread_mutex_lock(&c->mutex);
	for (; batch != NULL; batch = next) {
		next = batch->next;
		queue_add(&c->done, batch);
	}
	mail_send(c);
	pthread_mutex_unlock(&c->mutex);
}

/* Behind what was left over. */
static struct commit_job *
batch_take(struct committer *c, struct commit_job *rest)
{
	struct commit_job *batch, **end;

	pthread_mutex_lock(&c->mutex);
	while (rest == NULL && c->asked.first == NULL && !c->stopping)
		pthread_cond_wait(&c->work, &c->mutex);
	batch = queue_take(&c->asked);
	pthread_mutex_unlock(&c->mutex);
	for (end = &rest; *end != NULL; end = &(*end)->next)
		;
	*end = batch;
	return rest;
}

static void *
committer_thread(void *ctx)
{
	struct committer *c = ctx;
	struct commit_job *batch, *rest = NULL;

	while ((batch = batch_take(c, rest)) != NULL) {
		rest = batch_run(c, batch);
		hand_back(c, batch);
	}
	return NULL;
}

struct committer *
committer_start(const struct home *home, enum store_role role, const struct store_keys *keys,
    const char *acting, struct loop *loop, struct refusal *r)
{
	struct committer *c;

	if ((c = calloc(1, sizeof(*c))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	c->loop = loop;
	c->asked.last = &c->asked.first;
	c->done.last = &c->done.first;
	pthread_mutex_init(&c->mutex, NULL);
	pthread_cond_init(&c->work, NULL);
	if ((c->db = store_open(home, role, keys, r)) != NULL) {
		store_acting(c->db, "%s", acting);
		if (pthread_create(&c->thread, NULL, committer_thread, c) == 0)
			return c;
		refusal_set(r, "store.failed", "no thread could be started");
	}
	store_close(c->db);
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
	store_quiet(c->db);
}

void
committer_brief(struct committer *c)
{
	c->brief = true;
}

size_t
committer_pending(const struct committer *c)
{
	return c->pending;
}

void
committer_stop(struct committer *c)
{
	struct commit_job *batch, *rest;

	if (c == NULL)
		return;
	pthread_mutex_lock(&c->mutex);
	c->stopping = true;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->mutex);
	pthread_join(c->thread, NULL);
	if (c->mail != NULL)
		c->mail->to = NULL;
	/* Whoever is told may ask again. */
	for (deliver(c); (batch = queue_take(&c->asked)) != NULL; deliver(c))
		for (; batch != NULL; batch = rest) {
			rest = batch_run(c, batch);
			hand_back(c, batch);
		}
	store_close(c->db);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}
