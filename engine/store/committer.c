/* committer.c: a thread that commits. */
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>

#include "engine/store/committer.h"

#define SHARED_MOST 256 /* jobs of a batch; past it nothing is added */

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
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t work;
	struct queue asked, done; /* both under the mutex */
	struct mail *mail;        /* under way to the loop, or NULL */
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

static struct commit_job *
jobs_take(struct committer *c)
{
	struct commit_job *all;

	pthread_mutex_lock(&c->mutex);
	all = queue_take(&c->asked);
	pthread_mutex_unlock(&c->mutex);
	return all;
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
	store_acting(c->db, "%s", c->acting);
	if (c->quiet)
		store_quiet(c->db);
	return 0;
}

/*
 * One transaction for all of them, and for what is asked while they run, within bounds.  If it
 * cannot be made durable, none of them was decided.
 */
static void
batch_run(struct committer *c, struct commit_job *batch)
{
	struct refusal r = {0};
	struct commit_job *job;
	size_t n = 0;
	int failed;

	if (store_there(c, &r) == -1) {
		for (job = batch; job != NULL; job = job->next) {
			job->result = -1;
			job->refusal = r;
		}
		return;
	}
	failed = store_begin(c->db);
	for (job = batch; job != NULL; job = job->next) {
		if (failed)
			job_failed(job, c->db);
		else
			job_run(c, job);
		if (++n < SHARED_MOST && job->next == NULL)
			job->next = jobs_take(c);
	}
	if (failed || store_commit(c->db) == 0)
		return;
	for (job = batch; job != NULL; job = job->next)
		job_failed(job, c->db);
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

static void *
committer_thread(void *ctx)
{
	struct committer *c = ctx;
	struct commit_job *batch;

	for (;;) {
		pthread_mutex_lock(&c->mutex);
		while (c->asked.first == NULL && !c->stopping)
			pthread_cond_wait(&c->work, &c->mutex);
		batch = queue_take(&c->asked);
		pthread_mutex_unlock(&c->mutex);
		if (batch == NULL)
			return NULL;
		batch_run(c, batch);
		hand_back(c, batch);
	}
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
	c->home = home;
	c->role = role;
	c->keys = keys;
	snprintf(c->acting, sizeof(c->acting), "%s", acting);
	c->loop = loop;
	c->asked.last = &c->asked.first;
	c->done.last = &c->done.first;
	pthread_mutex_init(&c->mutex, NULL);
	pthread_cond_init(&c->work, NULL);
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

size_t
committer_pending(const struct committer *c)
{
	return c->pending;
}

void
committer_stop(struct committer *c)
{
	struct commit_job *batch;

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
	for (deliver(c); (batch = queue_take(&c->asked)) != NULL; deliver(c)) {
		batch_run(c, batch);
		hand_back(c, batch);
	}
	store_close(c->db);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}
