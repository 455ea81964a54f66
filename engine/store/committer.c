/* committer.c: a thread that commits. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "engine/store/committer.h"

#define SHARED_MOST 256 /* jobs of a batch; past it nothing is added */
#define TELL_MOST   4   /* jobs told of before the loop turns to what else there is */
#define BRISK       2   /* times as long as the last commit: a brisk committer's batch */
#define GIVE_WAY    5   /* nice(2) of a brisk one's thread */

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
	struct queue taken; /* the thread's own: of what was asked, what is not in a batch yet */
	struct queue told;  /* the loop's own: of what is done, what nobody was told of yet */
	bool brisk;
	int64_t last;      /* ns that the last commit took */
	struct mail *mail; /* under way to the loop, or NULL */
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

/* The first, or NULL. */
static struct commit_job *
queue_pop(struct queue *queue)
{
	struct commit_job *job = queue->first;

	if (job != NULL && (queue->first = job->next) == NULL)
		queue->last = &queue->first;
	return job;
}

/* All of ${from} to ${to}, which is empty. */
static void
queue_move(struct queue *to, struct queue *from)
{
	if (from->first == NULL)
		return;
	*to = *from;
	from->first = NULL;
	from->last = &from->first;
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

/* The next of a thread's ${own}, filled anew from ${shared} where it is empty; or NULL. */
static struct commit_job *
job_next(struct committer *c, struct queue *own, struct queue *shared)
{
	if (own->first == NULL) {
		pthread_mutex_lock(&c->mutex);
		queue_move(own, shared);
		pthread_mutex_unlock(&c->mutex);
	}
	return queue_pop(own);
}

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
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

/* Without a database none of them is decided. */
static struct commit_job *
batch_refused(struct committer *c, const struct refusal *r)
{
	struct queue batch = {.last = &batch.first};
	struct commit_job *job;

	while ((job = job_next(c, &c->taken, &c->asked)) != NULL) {
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
	int64_t began;
	int failed;

	if (store_there(c, &r) == -1)
		return batch_refused(c, &r);
	failed = store_begin(c->db);
	began = now_ns();
	while (n < SHARED_MOST && (job = job_next(c, &c->taken, &c->asked)) != NULL) {
		queue_add(&batch, job);
		if (failed)
			job_failed(job, c->db);
		else
			job_run(c, job);
		n++;
		if (c->brisk && now_ns() - began > BRISK * c->last)
			break;
	}
	began = now_ns();
	if (!failed && store_commit(c->db) != 0)
		for (job = batch.first; job != NULL; job = job->next)
			job_failed(job, c->db);
	c->last = now_ns() - began;
	return batch.first;
}

/* In the loop's thread: tell whoever asked, ${most} of them. */
static void
deliver(struct committer *c, size_t most)
{
	struct commit_job *job;

	while (most-- > 0 && (job = job_next(c, &c->told, &c->done)) != NULL) {
		c->pending--;
		job->done(job);
	}
}

static void mail_arrives(void *ctx);

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
mail_arrives(void *ctx)
{
	struct mail *mail = ctx;
	struct committer *c = mail->to;

	if (c != NULL) {
		deliver(c, TELL_MOST);
		pthread_mutex_lock(&c->mutex);
		c->mail = NULL;
		if (c->told.first != NULL || c->done.first != NULL)
			mail_send(c);
		pthread_mutex_unlock(&c->mutex);
	}
	free(mail);
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

/* Wait for a job.  Return false where none comes any more. */
static bool
job_wait(struct committer *c)
{
	bool there;

	if (c->taken.first != NULL)
		return true;
	pthread_mutex_lock(&c->mutex);
	while (c->asked.first == NULL && !c->stopping)
		pthread_cond_wait(&c->work, &c->mutex);
	there = c->asked.first != NULL;
	pthread_mutex_unlock(&c->mutex);
	return there;
}

static void *
committer_thread(void *ctx)
{
	struct committer *c = ctx;

	while (job_wait(c)) {
		/*
		 * Where the processors are all taken, those go first who have something to ask for
		 * or to pass on: they wait together then, and share a commit.
		 */
		if (c->brisk && c->db == NULL)
			setpriority(PRIO_PROCESS, 0, GIVE_WAY);
		hand_back(c, batch_run(c));
		if (c->brisk)
			sched_yield(); /* whoever waits for it goes first */
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
	c->home = home;
	c->role = role;
	c->keys = keys;
	snprintf(c->acting, sizeof(c->acting), "%s", acting);
	c->loop = loop;
	c->asked.last = &c->asked.first;
	c->done.last = &c->done.first;
	c->taken.last = &c->taken.first;
	c->told.last = &c->told.first;
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

void
committer_brisk(struct committer *c)
{
	c->brisk = true;
}

size_t
committer_pending(const struct committer *c)
{
	return c->pending;
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
	if (c->mail != NULL)
		c->mail->to = NULL;
	/* Whoever is told may ask again. */
	for (deliver(c, SIZE_MAX); c->pending > 0; deliver(c, SIZE_MAX))
		hand_back(c, batch_run(c));
	store_close(c->db);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->mutex);
	free(c);
}
