/* sandbox_wire.c: numbers first, then texts that each end with a NUL, in a fixed order. */
#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_wire.h"

#define MAGIC 0x78626e73 /* both ends are the same program: there are no versions */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct head {
	uint32_t magic;
	uint32_t argc, envc, pathc, forbiddenc, fdc;
	uint32_t net, uid, gid, backend;
	uint32_t listenerc, ports[SANDBOX_LISTENERS], listens[SANDBOX_LISTENERS];
	struct sandbox_limits limits;
	uint32_t kinds[SANDBOX_PATHS_MAX];
};

enum { LISTENER_DATAGRAM = 1, LISTENER_ANY = 2, LISTENER_CATCH = 4 };

/* What is left of the texts. */
struct texts {
	char *at;
	size_t left;
};

static uint32_t
count(char *const *list)
{
	uint32_t n = 0;

	while (n <= SANDBOX_WORDS_MAX && list[n] != NULL)
		n++;
	return n;
}

static int
put(FILE *f, const char *text)
{
	return fwrite(text, strlen(text) + 1, 1, f) == 1 ? 0 : -1;
}

static int
put_texts(FILE *f, const struct sandbox_plan *plan, const struct head *h)
{
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < h->argc; i++)
		rc = put(f, plan->argv[i]);
	for (i = 0; rc == 0 && i < h->envc; i++)
		rc = put(f, plan->env[i]);
	if (rc == 0)
		rc = put(f, plan->cwd);
	for (i = 0; rc == 0 && i < h->pathc; i++) {
		rc = put(f, plan->paths[i].source != NULL ? plan->paths[i].source : "");
		if (rc == 0)
			rc = put(f, plan->paths[i].target);
	}
	for (i = 0; rc == 0 && i < h->forbiddenc; i++)
		rc = put(f, plan->forbidden[i]);
	return rc;
}

static int
put_all(FILE *f, const struct sandbox_plan *plan)
{
	struct head h = {
	    .magic = MAGIC,
	    .argc = count(plan->argv),
	    .envc = count(plan->env),
	    .pathc = (uint32_t)plan->path_count,
	    .forbiddenc = (uint32_t)plan->forbidden_count,
	    .fdc = (uint32_t)plan->fd_count,
	    .listenerc = (uint32_t)plan->listener_count,
	    .net = plan->net,
	    .uid = plan->uid,
	    .gid = plan->gid,
	    .backend = plan->backend,
	    .limits = plan->limits,
	};
	size_t i;

	for (i = 0; i < plan->path_count; i++)
		h.kinds[i] = plan->paths[i].kind;
	for (i = 0; i < plan->listener_count; i++) {
		const struct sandbox_listener *l = &plan->listeners[i];

		h.ports[i] = l->port;
		h.listens[i] = (l->datagram ? LISTENER_DATAGRAM : 0U) |
			       (l->any ? LISTENER_ANY : 0U) | (l->catch ? LISTENER_CATCH : 0U);
	}
	if (fwrite(&h, sizeof(h), 1, f) != 1 || put_texts(f, plan, &h) == -1 || fflush(f) != 0)
		return -1;
	return ftell(f) > SANDBOX_WIRE_MAX ? -1 : 0;
}

int
sandbox_wire_write(const struct sandbox_plan *plan, struct refusal *refusal)
{
	FILE *f = NULL;
	int fd, copy = -1;
	size_t i;

	for (i = 0; i < plan->path_count && plan->paths[i].kind != SANDBOX_SOCKET; i++)
		continue;
	if (plan->terminal != NULL || plan->may != NULL || i < plan->path_count)
		return refusal_set(refusal, "sandbox.plan",
		    "terminals and sockets are for whoever starts the sandbox itself");
	if (plan->listener_count > SANDBOX_LISTENERS || plan->path_count > SANDBOX_PATHS_MAX ||
	    plan->forbidden_count > SANDBOX_PATHS_MAX || plan->fd_count > SANDBOX_FDS_MAX)
		return refusal_set(refusal, "sandbox.plan", "a plan has too many paths");
	if ((fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING)) != -1 &&
	    (copy = fcntl(fd, F_DUPFD_CLOEXEC, 3)) != -1 && (f = fdopen(copy, "w")) != NULL &&
	    put_all(f, plan) == 0) {
		fclose(f);
		if (fcntl(fd, F_ADD_SEALS, SEALS) == 0)
			return fd;
		f = NULL;
	}
	if (f != NULL)
		fclose(f);
	else if (copy != -1 && fd != -1)
		close(copy);
	if (fd != -1)
		close(fd);
	return refusal_set(
	    refusal, "sandbox.plan", "the plan is longer than %d bytes", SANDBOX_WIRE_MAX);
}

/* Take the next text, or NULL. */
static char *
take(struct texts *t)
{
	char *text = t->at, *end = t->left > 0 ? memchr(t->at, '\0', t->left) : NULL;

	if (end == NULL)
		return NULL;
	t->left -= (size_t)(end - t->at) + 1;
	t->at = end + 1;
	return text;
}

static int
take_words(struct texts *t, char **out, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if ((out[i] = take(t)) == NULL)
			return -1;
	out[n] = NULL;
	return 0;
}

static int
take_paths(struct texts *t, struct sandbox_wire *w, const struct head *h)
{
	const char *source;
	uint32_t i;

	for (i = 0; i < h->pathc; i++) {
		if (h->kinds[i] > SANDBOX_KEEP || (source = take(t)) == NULL ||
		    (w->paths[i].target = take(t)) == NULL)
			return -1;
		w->paths[i].kind = (enum sandbox_kind)h->kinds[i];
		w->paths[i].source = source[0] != '\0' ? source : NULL;
	}
	for (i = 0; i < h->forbiddenc; i++)
		if ((w->forbidden[i] = take(t)) == NULL || w->forbidden[i][0] != '/')
			return -1;
	return 0;
}

static int
room_for(struct sandbox_wire *w, const struct head *h)
{
	if (h->magic != MAGIC || h->argc == 0 || h->argc > SANDBOX_WORDS_MAX ||
	    h->envc > SANDBOX_WORDS_MAX || h->pathc > SANDBOX_PATHS_MAX ||
	    h->forbiddenc > SANDBOX_PATHS_MAX || h->fdc > SANDBOX_FDS_MAX ||
	    h->net > SANDBOX_NET_CAUGHT || h->backend > BACKEND_NONE ||
	    h->listenerc > SANDBOX_LISTENERS)
		return -1;
	w->words = calloc((size_t)h->argc + h->envc + 2, sizeof(*w->words));
	w->paths = calloc((size_t)h->pathc + 1, sizeof(*w->paths));
	w->forbidden = calloc((size_t)h->forbiddenc + 1, sizeof(*w->forbidden));
	return w->words != NULL && w->paths != NULL && w->forbidden != NULL ? 0 : -1;
}

static void
fill(struct sandbox_wire *w, const struct head *h)
{
	uint32_t i;

	w->plan.argv = w->words;
	w->plan.env = w->words + h->argc + 1;
	w->plan.paths = w->paths;
	w->plan.path_count = h->pathc;
	w->plan.forbidden = w->forbidden;
	w->plan.forbidden_count = h->forbiddenc;
	w->plan.net = (enum sandbox_net)h->net;
	w->plan.backend = (enum sandbox_backend)h->backend;
	w->plan.uid = h->uid;
	w->plan.gid = h->gid;
	w->plan.fds = w->fds;
	w->plan.fd_count = h->fdc;
	w->plan.limits = h->limits;
	for (i = 0; i < h->listenerc; i++)
		w->listeners[i] = (struct sandbox_listener){.port = (uint16_t)h->ports[i],
		    .datagram = (h->listens[i] & LISTENER_DATAGRAM) != 0,
		    .any = (h->listens[i] & LISTENER_ANY) != 0,
		    .catch = (h->listens[i] & LISTENER_CATCH) != 0};
	w->plan.listeners = w->listeners;
	w->plan.listener_count = h->listenerc;
	for (i = 0; i < SANDBOX_FDS_MAX; i++)
		w->fds[i] = -1;
	for (i = 0; i < 3; i++)
		w->plan.stdio[i] = -1;
}

/* Take apart what w->bytes holds. */
static int
parse(struct sandbox_wire *w, size_t len)
{
	struct texts t = {w->bytes + sizeof(struct head), len - sizeof(struct head)};
	struct head h;

	memcpy(&h, w->bytes, sizeof(h));
	if (room_for(w, &h) != 0)
		return -1;
	fill(w, &h);
	if (take_words(&t, w->words, h.argc) != 0 ||
	    take_words(&t, w->words + h.argc + 1, h.envc) != 0 ||
	    (w->plan.cwd = take(&t)) == NULL || take_paths(&t, w, &h) != 0)
		return -1;
	return t.left == 0 ? 0 : -1;
}

int
sandbox_wire_parse(const void *bytes, size_t len, struct sandbox_wire *w)
{
	memset(w, 0, sizeof(*w));
	if (len < sizeof(struct head) || len > SANDBOX_WIRE_MAX || (w->bytes = malloc(len)) == NULL)
		return -1;
	memcpy(w->bytes, bytes, len);
	return parse(w, len);
}

int
sandbox_wire_read(int fd, struct sandbox_wire *w)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	memset(w, 0, sizeof(*w));
	/* What could still change is not what was checked. */
	if (seals == -1 || (seals & SEALS) != SEALS || fstat(fd, &st) == -1 ||
	    st.st_size < (off_t)sizeof(struct head) || st.st_size > SANDBOX_WIRE_MAX ||
	    (w->bytes = malloc((size_t)st.st_size)) == NULL ||
	    pread(fd, w->bytes, (size_t)st.st_size, 0) != st.st_size)
		return -1;
	return parse(w, (size_t)st.st_size);
}

void
sandbox_wire_free(struct sandbox_wire *w)
{
	free(w->bytes);
	free(w->words);
	free(w->paths);
	free(w->forbidden);
	memset(w, 0, sizeof(*w));
}
