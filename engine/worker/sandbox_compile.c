/* sandbox_compile.c: from a plan to steps: what contradicts itself or shows too much ends here. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_job.h"

#define CODE         "sandbox.plan"
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

/* What we make ourselves: nothing of a plan lies there. */
static const char *const ours[] = {"/proc", "/dev", "/.effect"};

struct compiler {
	const struct sandbox_plan *plan;
	const struct sandbox_caller *caller;
	struct sandbox_job *job;
	struct sandbox_report *report;
	struct refusal *refusal;
	const struct sandbox_path *sorted[2 * SANDBOX_PATHS_MAX];
	struct sandbox_path hidden[SANDBOX_PATHS_MAX];
	size_t count;
};

void
sandbox_note(struct sandbox_report *report, const char *fmt, ...)
{
	va_list ap;

	if (report->note_count == SANDBOX_NOTES_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(report->notes[report->note_count++], sizeof(report->notes[0]), fmt, ap);
	va_end(ap);
}

bool
sandbox_within(const char *path, const char *root)
{
	size_t n = strlen(root);

	if (n == 1)
		return true;
	return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Absolute, one slash between components, none of them "." or "..", not the root itself. */
static bool
is_plain(const char *path)
{
	const char *at = path;
	size_t n;

	if (path == NULL || strlen(path) >= PATH_MAX || path[0] != '/' || path[1] == '\0')
		return false;
	while (*at == '/') {
		n = strcspn(++at, "/");
		if (n == 0 || n > NAME_MAX || (n == 1 && at[0] == '.') ||
		    (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		at += n;
	}
	return true;
}

static bool
is_bind(enum sandbox_kind kind)
{
	return kind <= SANDBOX_EFFECT || kind == SANDBOX_SOCKET;
}

/*
 * Checking.
 */

static int
refuse_path(struct compiler *k, const struct sandbox_path *p, const char *why)
{
	return refusal_set(
	    k->refusal, CODE, "the path %.200s %s", p->target != NULL ? p->target : "?", why);
}

static int
check_path(struct compiler *k, const struct sandbox_path *p)
{
	size_t i;

	if (!is_plain(p->target))
		return refuse_path(k, p, "inside is not absolute and plain");
	for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (sandbox_within(p->target, ours[i]))
			return refuse_path(k, p, "is made by the sandbox itself");
	if (p->kind == SANDBOX_LINK)
		return p->source != NULL && p->source[0] != '\0' && strlen(p->source) < PATH_MAX
			   ? 0
			   : refuse_path(k, p, "is a link to nowhere");
	if (!is_bind(p->kind))
		return 0;
	if (!is_plain(p->source))
		return refuse_path(k, p, "comes from a place that is not absolute and plain");
	for (i = 0; i < k->plan->forbidden_count; i++)
		if (sandbox_within(p->source, k->plan->forbidden[i]))
			return refuse_path(k, p, "would show what belongs to bastion");
	return 0;
}

static bool
is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* A folder's descriptor is a way past the root; one of a path alone may become one. */
static int
check_fd(struct compiler *k, int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags == -1 || fstat(fd, &st) == -1)
		return refusal_errno(k->refusal, CODE, "a descriptor is not open");
	if (S_ISDIR(st.st_mode) || (flags & O_PATH) != 0)
		return refusal_set(
		    k->refusal, CODE, "a descriptor of a folder is a way out of the sandbox");
	if (is_socket(fd) && k->plan->net == SANDBOX_NET_NONE)
		return refusal_set(
		    k->refusal, CODE, "a socket is passed in, but the plan has no network");
	return 0;
}

static int
check_fds(struct compiler *k)
{
	size_t i;

	if (k->plan->fd_count > SANDBOX_FDS_MAX)
		return refusal_set(
		    k->refusal, CODE, "at most %d descriptors can be passed in", SANDBOX_FDS_MAX);
	if (k->plan->listener_count > SANDBOX_LISTENERS ||
	    (k->plan->listener_count > 0 && k->plan->net == SANDBOX_NET_HOST))
		return refusal_set(k->refusal, CODE,
		    "at most %d sockets can listen inside, in a network of its own",
		    SANDBOX_LISTENERS);
	if (k->plan->backend != BACKEND_NATIVE &&
	    (k->plan->listener_count > 0 || k->plan->terminal != NULL))
		return refusal_set(k->refusal, "sandbox.backend",
		    "listeners and terminals are only in a sandbox of our own");
	for (i = 0; i < 3; i++)
		if (!(k->plan->terminal != NULL && k->plan->stdio[i] == -1) &&
		    check_fd(k, k->plan->stdio[i]) != 0)
			return -1;
	for (i = 0; i < k->plan->fd_count; i++)
		if (check_fd(k, k->plan->fds[i]) != 0)
			return -1;
	return 0;
}

static int
check_words(struct compiler *k, char *const *words, const char *what)
{
	size_t n = 0;

	while (words != NULL && words[n] != NULL)
		n++;
	if (words == NULL || n > SANDBOX_WORDS_MAX)
		return refusal_set(
		    k->refusal, CODE, "%s has no words, or more than %d", what, SANDBOX_WORDS_MAX);
	return 0;
}

static int
check_plan(struct compiler *k)
{
	const struct sandbox_plan *plan = k->plan;
	const struct sandbox_limits *l = &plan->limits;
	size_t i;

	if (check_words(k, plan->argv, "the command") != 0 ||
	    check_words(k, plan->env, "the environment") != 0)
		return -1;
	if (plan->argv[0] == NULL || plan->argv[0][0] == '\0')
		return refusal_set(k->refusal, CODE, "there is no command");
	if (plan->path_count > SANDBOX_PATHS_MAX || plan->forbidden_count > SANDBOX_PATHS_MAX)
		return refusal_set(
		    k->refusal, CODE, "a plan has at most %d paths", SANDBOX_PATHS_MAX);
	for (i = 0; plan->backend == BACKEND_NONE && i < plan->path_count; i++)
		if (plan->paths[i].kind == SANDBOX_EFFECT)
			return refusal_set(k->refusal, "sandbox.backend",
			    "without a sandbox no changes can be gathered");
	if (strcmp(plan->cwd, "/") != 0 && !is_plain(plan->cwd))
		return refusal_set(
		    k->refusal, CODE, "the working directory is not absolute and plain");
	if (k->caller->uid != 0 && (plan->uid != k->caller->uid || plan->gid != k->caller->gid))
		return refusal_set(k->refusal, CODE, "only root can run something as another user");
	if (l->group.tasks < 1 || l->scratch_bytes < 4096 || l->effect_bytes < 4096 ||
	    l->effect_files < 16 || l->open_files < 16 || l->file_bytes < 0)
		return refusal_set(k->refusal, CODE, "a limit is too low to run anything");
	return check_fds(k);
}

/*
 * Steps.
 */

static int
kind_order(enum sandbox_kind kind)
{
	if (is_bind(kind) || kind == SANDBOX_LINK)
		return 0;
	return kind == SANDBOX_KEEP ? 2 : 1;
}

/* As strcmp, but with '/' before everything else, so that what is in a folder follows it. */
static int
path_order(const char *a, const char *b)
{
	while (*a == *b && *a != '\0') {
		a++;
		b++;
	}
	if (*a == '/' || *b == '/')
		return *a == *b ? 0 : *a == '\0' || (*a == '/' && *b != '\0') ? -1 : 1;
	return (unsigned char)*a - (unsigned char)*b;
}

static int
by_order(const void *a, const void *b)
{
	const struct sandbox_path *x = *(const struct sandbox_path *const *)a;
	const struct sandbox_path *y = *(const struct sandbox_path *const *)b;
	int order = kind_order(x->kind) - kind_order(y->kind);

	if (order == 0)
		order = path_order(x->target, y->target);
	return order != 0 ? order : (int)x->kind - (int)y->kind;
}

static struct sandbox_step *
new_step(struct compiler *k, enum sandbox_step_kind kind, const char *target, size_t len)
{
	struct sandbox_step *s;

	if (k->job->step_count == SANDBOX_STEPS_MAX) {
		refusal_set(
		    k->refusal, CODE, "the plan comes to more than %d mounts", SANDBOX_STEPS_MAX);
		return NULL;
	}
	s = &k->job->steps[k->job->step_count++];
	*s = (struct sandbox_step){.kind = kind, .target = target, .len = len, .tree = -1};
	return s;
}

/* Which of the plan's gathered folders ${p} is, as the caller counts them. */
static size_t
effect_number(const struct compiler *k, const struct sandbox_path *p)
{
	const struct sandbox_path *q;
	size_t n = 0;

	for (q = k->plan->paths; q < p && q < k->plan->paths + k->plan->path_count; q++)
		n += q->kind == SANDBOX_EFFECT;
	return n;
}

/* Return whether ${st} is one of the forbidden paths, by whatever name it was reached. */
static bool
is_forbidden(const struct compiler *k, const struct stat *st)
{
	struct stat f;
	size_t i;

	for (i = 0; i < k->plan->forbidden_count; i++)
		if (lstat(k->plan->forbidden[i], &f) == 0 && f.st_dev == st->st_dev &&
		    f.st_ino == st->st_ino)
			return true;
	return false;
}

static int
bind_step(struct compiler *k, const struct sandbox_path *p)
{
	static const enum sandbox_step_kind kinds[] = {[SANDBOX_READ] = STEP_READ,
	    [SANDBOX_WRITE] = STEP_WRITE,
	    [SANDBOX_EFFECT] = STEP_EFFECT,
	    [SANDBOX_SOCKET] = STEP_READ};
	struct sandbox_step *s;
	struct stat st;

	if (lstat(p->source, &st) == -1)
		return refusal_errno(k->refusal, CODE, p->source);
	if (is_forbidden(k, &st))
		return refuse_path(k, p, "would show what belongs to bastion");
	if (p->kind == SANDBOX_SOCKET && !S_ISSOCK(st.st_mode))
		return refuse_path(k, p, "is no socket");
	if (p->kind != SANDBOX_SOCKET && !S_ISDIR(st.st_mode) &&
	    (p->kind == SANDBOX_EFFECT || !S_ISREG(st.st_mode)))
		return refuse_path(k, p, "is no folder and no file");
	if (p->kind == SANDBOX_EFFECT && ++k->job->effect_count > SANDBOX_EFFECTS)
		return refuse_path(k, p, "is one folder too many to gather changes of");
	if ((s = new_step(k, kinds[p->kind], p->target, strlen(p->target))) == NULL)
		return -1;
	s->source = p->source;
	s->effect = effect_number(k, p);
	s->folder = S_ISDIR(st.st_mode);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

static int
outer_step(struct compiler *k, const struct sandbox_path *p)
{
	struct sandbox_step *s;

	if (p->kind != SANDBOX_LINK)
		return bind_step(k, p);
	if ((s = new_step(k, STEP_LINK, p->target, strlen(p->target))) == NULL)
		return -1;
	s->source = p->source;
	return 0;
}

/* The path whose file system ${target} lies in, or NULL. */
static const struct sandbox_path *
bind_of(const struct compiler *k, const char *target)
{
	const struct sandbox_path *best = NULL;
	size_t i;

	for (i = 0; i < k->count; i++)
		if (is_bind(k->sorted[i]->kind) && sandbox_within(target, k->sorted[i]->target))
			best = k->sorted[i];
	return best;
}

/* Look at what lies outside where ${p} points to inside.  Return 0, or -1 with errno. */
static int
look(const struct compiler *k, const struct sandbox_path *p, struct stat *st)
{
	const struct sandbox_path *b = bind_of(k, p->target);
	char path[2 * PATH_MAX];

	if (b == NULL) {
		errno = ENOENT;
		return -1;
	}
	snprintf(path, sizeof(path), "%s%s", b->source, p->target + strlen(b->target));
	return lstat(path, st);
}

/* Return whether something that hides lies around ${p}, with nothing between that shows. */
static bool
is_hidden(const struct compiler *k, const struct sandbox_path *p)
{
	const struct sandbox_path *q;
	bool hidden = false;
	size_t i;

	for (i = 0; i < k->count; i++) {
		q = k->sorted[i];
		if (q != p && kind_order(q->kind) == 1 && sandbox_within(p->target, q->target) &&
		    (strcmp(p->target, q->target) != 0 || p->kind == SANDBOX_KEEP))
			hidden = q->kind == SANDBOX_HIDE;
	}
	return hidden;
}

/* Return whether ${target}'s first ${len} bytes are pinned already. */
static bool
is_pinned(const struct compiler *k, const char *target, size_t len)
{
	const struct sandbox_step *s;
	size_t i;

	for (i = 0; i < k->job->step_count; i++) {
		s = &k->job->steps[i];
		if (s->kind == STEP_PIN && s->len == len && memcmp(s->target, target, len) == 0)
			return true;
	}
	return false;
}

/* Who could rename a folder on the way to ${p} would find it unguarded in the next run. */
static int
pin_way(struct compiler *k, const struct sandbox_path *p)
{
	const struct sandbox_path *b = bind_of(k, p->target);
	const char *at;

	if (b == NULL || b->kind == SANDBOX_READ || strcmp(b->target, p->target) == 0)
		return 0;
	at = p->target + strlen(b->target) + 1;
	while ((at = strchr(at, '/')) != NULL) {
		if (!is_pinned(k, p->target, (size_t)(at - p->target)) &&
		    new_step(k, STEP_PIN, p->target, (size_t)(at - p->target)) == NULL)
			return -1;
		at++;
	}
	return 0;
}

static int
inner_step(struct compiler *k, const struct sandbox_path *p, const struct stat *st)
{
	static const enum sandbox_step_kind kinds[] = {
	    [SANDBOX_HIDE] = STEP_HIDE, [SANDBOX_SHOW] = STEP_SHOW, [SANDBOX_KEEP] = STEP_KEEP};
	const struct sandbox_path *b = bind_of(k, p->target);
	struct sandbox_step *s;

	if ((s = new_step(k, kinds[p->kind], p->target, strlen(p->target))) == NULL)
		return -1;
	s->folder = S_ISDIR(st->st_mode);
	/* An overlay has numbers of its own. */
	s->exact = b->kind != SANDBOX_EFFECT && p->kind != SANDBOX_KEEP;
	s->dev = st->st_dev;
	s->ino = st->st_ino;
	return 0;
}

/* Return 1 if ${p} has something to guard, 0 if there is nothing, -1 with a refusal. */
static int
inner_wanted(struct compiler *k, const struct sandbox_path *p, struct stat *st)
{
	bool hidden = is_hidden(k, p);

	if (bind_of(k, p->target) == NULL)
		return 0;
	if (look(k, p, st) == -1) {
		if (errno != ENOENT && errno != ENOTDIR)
			return refusal_errno(k->refusal, CODE, p->target);
		sandbox_note(k->report, "%.100s does not exist: nothing to guard", p->target);
		return 0;
	}
	if (S_ISLNK(st->st_mode))
		return refuse_path(k, p, "is a link: name what it leads to");
	if (p->kind == SANDBOX_SHOW)
		return hidden || strcmp(p->target, bind_of(k, p->target)->target) != 0;
	return !hidden;
}

/* Something shown needs something that hides it. */
static bool
is_shown(const struct compiler *k, const struct sandbox_path *p)
{
	size_t i;

	for (i = 0; i < k->count; i++)
		if (k->sorted[i]->kind == SANDBOX_HIDE &&
		    sandbox_within(p->target, k->sorted[i]->target))
			return true;
	return false;
}

static int
inner_steps(struct compiler *k, bool pins)
{
	const struct sandbox_path *p;
	struct stat st;
	size_t i;
	int wanted;

	for (i = 0; i < k->count; i++) {
		p = k->sorted[i];
		if (kind_order(p->kind) == 0 ||
		    (p->kind == SANDBOX_SHOW && (pins || !is_shown(k, p))))
			continue;
		if (pins && look(k, p, &st) == -1)
			continue;
		if (pins && pin_way(k, p) != 0)
			return -1;
		if (pins)
			continue;
		if ((wanted = inner_wanted(k, p, &st)) == -1)
			return -1;
		if (wanted == 1 && inner_step(k, p, &st) != 0)
			return -1;
	}
	return 0;
}

/* What belongs to bastion and lies within a path of the plan is hidden in it. */
static int
hide_forbidden(struct compiler *k)
{
	const struct sandbox_path *p;
	const char *f;
	char *text;
	size_t i, j, n = k->count;

	for (i = 0; i < n; i++)
		for (j = 0; is_bind(k->sorted[i]->kind) && j < k->plan->forbidden_count; j++) {
			p = k->sorted[i];
			f = k->plan->forbidden[j];
			if (!sandbox_within(f, p->source))
				continue;
			if (k->job->hidden_count == SANDBOX_PATHS_MAX ||
			    k->count == 2 * SANDBOX_PATHS_MAX ||
			    asprintf(&text, "%s%s", p->target, f + strlen(p->source)) == -1)
				return refuse_path(k, p, "holds too much that has to be hidden");
			k->job->hidden[k->job->hidden_count] = text;
			k->hidden[k->job->hidden_count] =
			    (struct sandbox_path){SANDBOX_HIDE, NULL, text};
			k->sorted[k->count++] = &k->hidden[k->job->hidden_count++];
		}
	return 0;
}

static int
check_sorted(struct compiler *k)
{
	size_t i;

	for (i = 1; i < k->count; i++)
		if (kind_order(k->sorted[i]->kind) == 0 &&
		    strcmp(k->sorted[i]->target, k->sorted[i - 1]->target) == 0)
			return refuse_path(k, k->sorted[i], "stands twice in the plan");
	return 0;
}

/* What belongs to bastion is not shown again by what shows a part of something hidden. */
static int
check_shown(struct compiler *k)
{
	size_t i, j;

	for (i = 0; i < k->plan->path_count; i++)
		for (j = 0; j < k->job->hidden_count; j++)
			if (k->plan->paths[i].kind == SANDBOX_SHOW &&
			    sandbox_within(k->plan->paths[i].target, k->job->hidden[j]))
				return refuse_path(
				    k, &k->plan->paths[i], "would show what belongs to bastion");
	return 0;
}

static int
compile_paths(struct compiler *k)
{
	size_t i;

	for (i = 0; i < k->plan->path_count; i++) {
		if (check_path(k, &k->plan->paths[i]) != 0)
			return -1;
		k->sorted[k->count++] = &k->plan->paths[i];
	}
	if (hide_forbidden(k) != 0 || check_shown(k) != 0)
		return -1;
	qsort(k->sorted, k->count, sizeof(k->sorted[0]), by_order);
	if (check_sorted(k) != 0)
		return -1;
	for (i = 0; i < k->count && kind_order(k->sorted[i]->kind) == 0; i++)
		if (outer_step(k, k->sorted[i]) != 0)
			return -1;
	return inner_steps(k, true) == 0 && inner_steps(k, false) == 0 ? 0 : -1;
}

/*
 * The program.
 */

static const char *
path_of(char *const *env)
{
	for (; *env != NULL; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return DEFAULT_PATH;
}

static int
compile_programs(struct compiler *k)
{
	const char *name = k->plan->argv[0], *path = path_of(k->plan->env);
	size_t n = 0, len, most = strlen(path) + 2;

	if ((k->job->programs = calloc(most + 1, sizeof(char *))) == NULL)
		return refusal_set(k->refusal, "sandbox.start", "out of memory");
	if (strchr(name, '/') != NULL) {
		k->job->programs[0] = strdup(name);
		return k->job->programs[0] != NULL
			   ? 0
			   : refusal_set(k->refusal, "sandbox.start", "out of memory");
	}
	for (; *path != '\0'; path += len + (path[len] == ':')) {
		len = strcspn(path, ":");
		/* Only absolute: the working directory is the program's to write. */
		if (len > 0 && path[0] == '/' &&
		    asprintf(&k->job->programs[n++], "%.*s/%s", (int)len, path, name) == -1) {
			k->job->programs[n - 1] = NULL;
			return refusal_set(k->refusal, "sandbox.start", "out of memory");
		}
	}
	return 0;
}

static void
compile_texts(struct compiler *k)
{
	const struct sandbox_limits *l = &k->plan->limits;
	struct sandbox_job *job = k->job;

	snprintf(job->uid_map, sizeof(job->uid_map), "%u %u 1", k->plan->uid, k->plan->uid);
	snprintf(job->gid_map, sizeof(job->gid_map), "%u %u 1", k->plan->gid, k->plan->gid);
	snprintf(job->scratch_size, sizeof(job->scratch_size), "%lld", (long long)l->scratch_bytes);
	snprintf(job->effect_size, sizeof(job->effect_size), "%lld", (long long)l->effect_bytes);
	snprintf(job->files, sizeof(job->files), "%lld", (long long)l->effect_files);
	job->privileged = k->caller->uid == 0;
	job->tasks_max = l->group.tasks + 1;
}

int
sandbox_compile(const struct sandbox_plan *plan, const struct sandbox_caller *caller,
    struct sandbox_job *job, struct sandbox_report *report, struct refusal *refusal)
{
	struct compiler k = {
	    .plan = plan, .caller = caller, .job = job, .report = report, .refusal = refusal};

	/* Not the steps: each is whole when it is made, and most pages of them are never touched.
	 */
	memset((char *)job + offsetof(struct sandbox_job, step_count), 0,
	    sizeof(*job) - offsetof(struct sandbox_job, step_count));
	job->plan = plan;
	job->status_fd = -1;
	if (check_plan(&k) != 0 || compile_paths(&k) != 0 || compile_programs(&k) != 0)
		return -1;
	compile_texts(&k);
	job->filter = sandbox_filter;
	return 0;
}

void
sandbox_job_free(struct sandbox_job *job)
{
	size_t i;

	for (i = 0; i < job->hidden_count; i++)
		free(job->hidden[i]);
	for (i = 0; job->programs != NULL && job->programs[i] != NULL; i++)
		free(job->programs[i]);
	free(job->programs);
	job->programs = NULL;
	job->hidden_count = 0;
}
