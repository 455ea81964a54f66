/* act_cluster.c: what a container of a cluster runs, from a registry that was judged. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/worker/act.h"
#include "engine/worker/dial.h"
#include "engine/worker/work.h"

#define LABEL_MAX 63
#define IMAGE_MAX 255

static const char SET[] =
    "SELECT json_object('container', ?1, 'image', ?2, 'dry', json(iif(?3, 'true', 'false')),"
    "  'before', ?4)";

/* Where a container is. */
struct place {
	char space[LABEL_MAX + 1], deployment[LABEL_MAX + 1], container[LABEL_MAX + 1];
};

/* The part of ${text} up to a "/" or its end, a label of RFC 1123; NULL where it is none. */
static const char *
label_read(const char *text, char out[LABEL_MAX + 1])
{
	size_t len = strcspn(text, "/");

	if (len < 1 || len > LABEL_MAX ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") < len || text[0] == '-' ||
	    text[len - 1] == '-')
		return NULL;
	snprintf(out, LABEL_MAX + 1, "%.*s", (int)len, text);
	return text + len;
}

static int
place_read(const char *text, struct place *p)
{
	if ((text = label_read(text, p->space)) == NULL || *text++ != '/' ||
	    (text = label_read(text, p->deployment)) == NULL || *text++ != '/' ||
	    (text = label_read(text, p->container)) == NULL)
		return -1;
	return *text == '\0' ? 0 : -1;
}

/* Without a registry an image is from wherever each machine of the cluster thinks. */
static int
image_read(const char *text, struct destination *d)
{
	size_t len = strlen(text), registry = strcspn(text, "/");

	if (len > IMAGE_MAX || registry + 1 >= len || text[0] == '-' ||
	    strcspn(text, ".:") > registry ||
	    strspn(text,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@[]") != len)
		return -1;
	return destination_read(text, len, d);
}

static int
check_set(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	struct destination d;
	struct place p;

	(void)nargs;
	if (place_read(args[0], &p) != 0)
		return refusal_set(refusal, "act.cluster",
		    "what runs is NAMESPACE/DEPLOYMENT/CONTAINER, each of at most %d small letters, digits and -",
		    LABEL_MAX);
	if (image_read(args[1], &d) != 0)
		return refusal_set(refusal, "act.image",
		    "an image is REGISTRY/PATH of at most %d letters, digits and . _ - / : @",
		    IMAGE_MAX);
	for (canon->n = 0; canon->n < 2; canon->n++)
		snprintf(canon->v[canon->n], sizeof(canon->v[0]), "%s", args[canon->n]);
	return 0;
}

/* What says which cluster, and as whom, may start programs: nobody else may have written it. */
static int
cluster_known(struct work *w)
{
	struct stat st;

	if (stat(w->env->kubeconfig, &st) == -1 || !S_ISREG(st.st_mode))
		return refusal_set(
		    &w->refusal, "act.tool", "this machine has no %s", w->env->kubeconfig);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return refusal_set(&w->refusal, "act.tool",
		    "others can write to %s, which says what kubectl starts", w->env->kubeconfig);
	return 0;
}

static int
set_pinned(struct work *w, const struct place *p, const struct destination *d)
{
	const struct tool_fill fill = {.space = p->space,
	    .deployment = p->deployment,
	    .container = p->container,
	    .image = w->args->v[1]};
	char before[WORK_LINE];

	if (dial_holds(w, d) != 0 || work_run(w, TOOL_CLUSTER_IMAGE, &fill, work_first) != 0)
		return -1;
	if (w->first[0] == '\0')
		return refusal_set(
		    &w->refusal, "act.cluster", "there is no such container in the cluster");
	snprintf(before, sizeof(before), "%s", w->first);
	if (!w->args->dry && work_run(w, TOOL_CLUSTER_SET, &fill, work_first) != 0)
		return -1;
	return answer_result(
	    w->out, SET, "ttit", w->args->v[0], w->args->v[1], (int64_t)w->args->dry, before);
}

static int
set_image(struct work *w)
{
	struct destination d;
	struct place p;

	if (work_lacks(w, "k8s:set_image") || cluster_known(w) != 0 ||
	    place_read(w->args->v[0], &p) != 0 || image_read(w->args->v[1], &d) != 0)
		return -1;
	return w->args->pin[0] == '\0' ? dial_look(w, &d) : set_pinned(w, &p, &d);
}

static int
run_set(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return work_ends(&w, set_image(&w));
}

const struct observe_op act_k8s_set_image = {
    .name = "k8s:set_image",
    .usage = "NAMESPACE/DEPLOYMENT/CONTAINER IMAGE",
    .summary = "have a container of a cluster run another image; dry: which it runs now",
    .args_min = 2,
    .args_max = 2,
    .acts = true,
    .dials = true,
    .check = check_set,
    .run = run_set,
};
