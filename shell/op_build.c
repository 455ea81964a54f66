/* op_build.c: a builder in its sandbox: a copy of the source goes in, one file comes out. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/manifest.h"
#include "engine/state/sandbox_run.h"
#include "engine/worker/program_lent.h"
#include "engine/worker/sandbox_system.h"
#include "shell/op_build.h"

#define CODE    "manifest.build"
#define FROM    "/build/in"
#define TO      "/build/out"
#define PROGRAM "program" /* what is made, in ${TO} */
#define SOURCE  1         /* of what is lent */

struct build {
	struct cli *cli;
	struct lent lent;
	char in[LENT_MAX], out[LENT_MAX], made[LENT_MAX + 16];
	char source[PATH_MAX], target[PATH_MAX];
	char *argv[MANIFEST_WORDS_MAX + 1], *env[4];
	struct sandbox_plan plan;
	struct sandbox_system system;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
};

static const void *
map(int fd, size_t *len)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st) != 0 || st.st_size == 0)
		return NULL;
	*len = (size_t)st.st_size;
	at = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, fd, 0);
	return at != MAP_FAILED ? at : NULL;
}

/* What the builder reads are the bytes whose digest is shown. */
static int
lend_source(struct build *b, const char *path, char sha256[PROGRAM_HEX])
{
	struct refusal *r = &b->cli->refusal;
	const char *name = strrchr(path, '/') + 1;
	const void *bytes;
	size_t len = 0;
	int fd, rc;

	if ((fd = program_seal(path, store_setting(b->cli->db, "manifest.file"), sha256, r)) == -1)
		return -1;
	if ((bytes = map(fd, &len)) == NULL)
		rc = refusal_set(r, "manifest.file", "%s is empty", path);
	else
		rc = lent_put(&b->lent, SOURCE, name, bytes, len, b->in, r);
	if (bytes != NULL)
		munmap((void *)(uintptr_t)bytes, len);
	close(fd);
	snprintf(b->source, sizeof(b->source), "%s/%.255s", FROM, name);
	snprintf(b->target, sizeof(b->target), "%s/%s", TO, PROGRAM);
	return rc;
}

static int
make_out(struct build *b)
{
	snprintf(b->out, sizeof(b->out), "%.100s/out", b->lent.path);
	snprintf(b->made, sizeof(b->made), "%s/%s", b->out, PROGRAM);
	return mkdir(b->out, 0700) == 0
		   ? 0
		   : refusal_errno(&b->cli->refusal, CODE, "there is no place for what is built");
}

static int
lay(struct build *b, char *const *words, size_t n)
{
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
		    home[] = "HOME=/tmp", lang[] = "LANG=C.UTF-8";
	struct sandbox_plan *p = &b->plan;
	size_t i;

	for (i = 0; i < n; i++)
		b->argv[i] = strcmp(words[i], "$in") == 0    ? b->source
			     : strcmp(words[i], "$out") == 0 ? b->target
							     : words[i];
	b->env[0] = path;
	b->env[1] = home;
	b->env[2] = lang;
	b->paths[0] = (struct sandbox_path){SANDBOX_READ, b->in, FROM};
	b->paths[1] = (struct sandbox_path){SANDBOX_WRITE, b->out, TO};
	p->backend = BACKEND_NATIVE;
	p->argv = b->argv;
	p->env = b->env;
	p->cwd = TO;
	p->path_count = 2;
	p->net = SANDBOX_NET_NONE;
	p->uid = geteuid();
	p->gid = getegid();
	sandbox_run_limits(b->cli->db, &p->limits);
	return sandbox_system(&b->system, p, b->paths, &b->cli->home, NULL, &b->cli->refusal);
}

/* Run it to its end.  Return its exit code, or -1 with the refusal. */
static int
follow(struct build *b, struct sandbox *box, int64_t id)
{
	struct store *db = b->cli->db;
	struct refusal *r = &b->cli->refusal;
	struct pollfd p = {.events = POLLIN};
	int status = 0, ended;

	if (sandbox_ready(box, (int)store_setting(db, "sandbox.start_ms"), r) != 0 ||
	    sandbox_run_started(db, id, &box->report) != 0) {
		sandbox_end(box, NULL);
		sandbox_run_failed(db, id);
		return -1;
	}
	p.fd = box->pidfd;
	ended = poll(&p, 1, (int)store_setting(db, "act.time_ms"));
	if (sandbox_end(box, &status) != 0)
		return refusal_set(r, CODE, "the end of the builder could not be seen");
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (sandbox_run_ended(db, id,
		&(struct sandbox_outcome){.exit_code = ended == 1 ? status : 124, .applied = -1}) !=
	    0)
		return -1;
	if (ended == 1)
		return status;
	return refusal_set(r, CODE, "the builder took longer than the setting act.time_ms allows");
}

static int
run(struct build *b, size_t n)
{
	struct sandbox_ask ask = {.backend = "native",
	    .program = b->argv[0],
	    .words = (int64_t)n,
	    .uid = geteuid(),
	    .net = SANDBOX_NET_NONE};
	struct refusal *r = &b->cli->refusal;
	char nonce[SANDBOX_NONCE_SIZE];
	struct sandbox box;
	int64_t id;
	int code = -1;

	if ((b->plan.stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) == -1)
		return refusal_errno(r, CODE, "/dev/null");
	b->plan.stdio[1] = b->plan.stdio[2] = 2;
	if (sandbox_run_begin(b->cli->db, &ask, nonce, &id) != 0) {
		*r = *store_refusal(b->cli->db);
	} else if (sandbox_start(&b->plan, &box, r) != 0) {
		sandbox_run_failed(b->cli->db, id);
	} else {
		code = follow(b, &box, id);
		sandbox_free(&box);
	}
	close(b->plan.stdio[0]);
	return code <= 0 ? code : refusal_set(r, CODE, "the builder ended with %d", code);
}

/* Take what was made.  Everybody inside is gone, so it stays what it is: a file, and no link. */
static int
take(struct build *b, struct op_built *built)
{
	int64_t most = store_setting(b->cli->db, "manifest.built");
	struct refusal *r = &b->cli->refusal;
	struct stat st;
	int fd;

	if (lstat(b->made, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return refusal_set(r, CODE, "the builder made no file at $out");
	if (st.st_size > most)
		return refusal_set(
		    r, CODE, "what was built is larger than the setting manifest.built allows");
	if ((fd = program_seal(b->made, most, built->sha256, r)) == -1)
		return -1;
	built->bytes = map(fd, &built->len);
	close(fd);
	return built->bytes != NULL ? 0 : refusal_set(r, CODE, "out of memory");
}

/* The builder is what it is by its name; so its digest is looked at before it runs and after. */
static int
digest(struct build *b, const char *path, char sha256[PROGRAM_HEX])
{
	int fd = program_seal(
	    path, store_setting(b->cli->db, "manifest.file"), sha256, &b->cli->refusal);

	if (fd == -1)
		return -1;
	close(fd);
	return 0;
}

static int
build(struct build *b, const char *source, char *const *words, size_t n, struct op_built *built)
{
	char after[PROGRAM_HEX];

	if (lent_open(&b->lent, &b->cli->refusal) != 0 ||
	    lend_source(b, source, built->source_sha256) != 0 || make_out(b) != 0 ||
	    digest(b, words[0], built->builder_sha256) != 0)
		return -1;
	if (lay(b, words, n) != 0 || run(b, n) != 0 || digest(b, words[0], after) != 0)
		return -1;
	if (strcmp(after, built->builder_sha256) != 0)
		return refusal_set(
		    &b->cli->refusal, CODE, "%s changed while it was at work", words[0]);
	return take(b, built);
}

int
op_build(struct cli *cli, const char *source, char *const *words, size_t n, struct op_built *built)
{
	struct build *b = calloc(1, sizeof(*b));
	int rc;

	if (b == NULL)
		return refusal_set(&cli->refusal, CODE, "out of memory");
	b->cli = cli;
	b->lent.fd = -1;
	lent_sweep();
	rc = build(b, source, words, n, built);
	lent_close(&b->lent);
	sandbox_system_free(&b->system);
	free(b);
	return rc;
}
