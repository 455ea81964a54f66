/* act_image.c: images of containers, from a registry that was judged, into root's storage. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/image.h"
#include "engine/worker/act.h"
#include "engine/worker/dial.h"
#include "engine/worker/hold.h"
#include "engine/worker/work.h"

#define MANIFEST_MAX (1 << 20)

/* Where storage is unless it is said there. */
#define STORAGE      "/var/lib/containers/storage"
#define STORAGE_CONF "/etc/containers/storage.conf"

/* Of an index: the image for this machine. */
static const char INSTANCE[] =
    "SELECT value ->> '$.digest' FROM json_each(?1, '$.manifests')"
    " WHERE value ->> '$.platform.os' = 'linux' AND value ->> '$.platform.architecture' = ?2"
    " ORDER BY key LIMIT 1";

static const char KIND[] =
    "SELECT CASE WHEN NOT json_valid(?1) THEN 'none' WHEN json_type(?1, '$.manifests') = 'array' THEN 'index'"
    "            WHEN json_type(?1, '$.layers') = 'array' AND json_type(?1, '$.config') = 'object'"
    "            THEN 'image' ELSE 'none' END";

/* (A sum that is a fraction cannot overflow.) */
static const char BYTES[] =
    "SELECT CAST(min(9e15, total(max(0, CAST(size AS INTEGER)))) AS INTEGER) FROM"
    "  (SELECT ?1 ->> '$.config.size' AS size UNION ALL"
    "   SELECT value ->> '$.size' FROM json_each(?1, '$.layers'))";

static const char PULLED[] =
    "SELECT json_object('image', ?1, 'dry', json(iif(?2, 'true', 'false')), 'digest', ?3, 'bytes', ?4,"
    "  'layers', json_array_length(?5, '$.layers'), 'here', json(iif(?6, 'true', 'false')))";

/* What a registry says of an image. */
struct manifest {
	char text[MANIFEST_MAX];
	size_t len;
	char digest[IMAGE_DIGEST_MAX + 1]; /* of that text */
};

static int
check_pull(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	struct image image;
	bool tagged;

	(void)nargs;
	if (image_read(args[0], strlen(args[0]), &image) != 0)
		return refusal_set(refusal, "act.image",
		    "an image is REGISTRY/PATH:TAG or REGISTRY/PATH@sha256:DIGEST, of small letters, digits and"
		    " . _ - / between them");
	tagged = image.tag[0] != '\0';
	snprintf(canon->v[0], sizeof(canon->v[0]), "%s%c%s", image.name, tagged ? ':' : '@',
	    tagged ? image.tag : image.digest);
	canon->n = 1;
	return 0;
}

/* Who may pull, where a file says so, is a password, or starts a program that knows one. */
static int
creds_known(struct work *w, const char **creds)
{
	struct stat st;

	*creds = "";
	if (stat(w->env->registries, &st) == -1)
		return 0;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return refusal_set(&w->refusal, "act.tool",
		    "%s holds passwords: it has to be a file of root's that nobody else reads",
		    w->env->registries);
	*creds = w->env->registries;
	return 0;
}

static int
take_manifest(void *ctx, const char *data, size_t len)
{
	struct manifest *m = ctx;

	if (len > sizeof(m->text) - 1 - m->len)
		return 1;
	memcpy(m->text + m->len, data, len);
	m->len += len;
	return 0;
}

static void
digest_of(struct manifest *m)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	int n = snprintf(m->digest, sizeof(m->digest), "sha256:");

	crypto_hash_sha256(hash, (const unsigned char *)m->text, m->len);
	sodium_bin2hex(m->digest + n, sizeof(m->digest) - (size_t)n, hash, sizeof(hash));
}

/* Why a registry gave nothing, as far as anybody knows. */
static int
no_pull(struct work *w, const struct hold *hold)
{
	char target[ENDPOINT_TEXT_MAX + 1];

	if (hold_over(hold))
		return refusal_set(&w->refusal, "act.large",
		    "more came in than the setting act.image_bytes allows an image");
	if (hold_strayed(hold, target))
		return refusal_set(&w->refusal, "act.remote",
		    "the registry leads to %s, which is another place than the one that was judged",
		    target);
	return refusal_set(&w->refusal, "act.failed",
	    "skopeo could not pull from there: the registry does not answer, has no such image, asks for a"
	    " password or has no certificate that holds");
}

/* The manifest of ${name}, a colon or "@", and ${what}, into ${m}; its kind in ${w}->first.  By
 * digest it is that one or none. */
static int
look(struct work *w, const struct hold *hold, const char *name, const char *what, const char *creds,
    struct manifest *m)
{
	bool by_digest = image_digest_read(what, strlen(what));
	char source[IMAGE_TEXT_MAX + 1], why[REFUSAL_WHY_MAX];
	const struct tool_fill fill = {.source = source, .creds = creds};

	snprintf(source, sizeof(source), "%s%c%s", name, by_digest ? '@' : ':', what);
	m->len = 0;
	if (tool_run(TOOL_IMAGE_LOOK, w->env, &fill, w->limits->tool_ms, take_manifest, m, why,
		sizeof(why)) != 0)
		return no_pull(w, hold);
	m->text[m->len] = '\0';
	digest_of(m);
	if (by_digest && strcmp(m->digest, what) != 0)
		return refusal_set(&w->refusal, "act.changed",
		    "what the registry has is not what that digest names");
	return answer_value(w->out, w->first, sizeof(w->first), KIND, "t", m->text);
}

/* The image for this machine, where ${m} is an index of many. */
static int
choose(struct work *w, const struct hold *hold, const struct image *image, const char *creds,
    struct manifest *m)
{
	char instance[IMAGE_DIGEST_MAX + 2];
	struct utsname u;
	const char *machine;

	if (strcmp(w->first, "index") == 0) {
		uname(&u);
		machine = strcmp(u.machine, "x86_64") == 0    ? "amd64"
			  : strcmp(u.machine, "aarch64") == 0 ? "arm64"
							      : u.machine;
		if (answer_value(
			w->out, instance, sizeof(instance), INSTANCE, "tt", m->text, machine) != 0)
			return -1;
		if (!image_digest_read(instance, strlen(instance)))
			return refusal_set(&w->refusal, "act.image",
			    "there is none of that name for linux/%s", machine);
		if (look(w, hold, image->name, instance, creds, m) != 0)
			return -1;
	}
	if (strcmp(w->first, "image") != 0)
		return refusal_set(&w->refusal, "act.image",
		    "what the registry has under that name is no image of containers");
	return 0;
}

static int
take_nothing(void *ctx, const char *data, size_t len)
{
	(void)ctx;
	(void)data;
	(void)len;
	return 0;
}

/* Whether ${name} with ${digest} is in the storage; to ask makes one where there is none. */
static bool
is_here(struct work *w, const char *name, const char *digest)
{
	char stored[IMAGE_TEXT_MAX + 1], why[REFUSAL_WHY_MAX];
	const struct tool_fill fill = {.stored = stored};

	if (access(STORAGE, F_OK) != 0 && access(STORAGE_CONF, F_OK) != 0)
		return false;
	snprintf(stored, sizeof(stored), "%s@%s", name, digest);
	return tool_run(TOOL_IMAGE_HERE, w->env, &fill, w->limits->tool_ms, take_nothing, NULL, why,
		   sizeof(why)) == 0;
}

/* By digest, so that what comes is what was looked at, whatever the tag is by now. */
static int
fetch(struct work *w, const struct hold *hold, const struct image *image, const char *digest,
    const char *creds)
{
	char source[IMAGE_TEXT_MAX + 1];
	const struct tool_fill fill = {.source = source, .stored = w->args->v[0], .creds = creds};

	snprintf(source, sizeof(source), "%s@%s", image->name, digest);
	if (work_run(w, TOOL_IMAGE_PULL, &fill, work_first) != 0)
		return no_pull(w, hold);
	if (!is_here(w, image->name, digest))
		return refusal_set(
		    &w->refusal, "act.failed", "skopeo pulled it, and it is not in the storage");
	return 0;
}

static int
pull_held(struct work *w, const struct image *image, const char *creds)
{
	static struct manifest m; /* large */
	char digest[IMAGE_DIGEST_MAX + 1], bytes[24];
	struct hold hold;
	bool here;

	if (hold_enter(&hold, w->args->pin, w->limits->image_bytes, &w->refusal) != 0 ||
	    look(w, &hold, image->name, image->tag[0] != '\0' ? image->tag : image->digest, creds,
		&m) != 0)
		return -1;
	snprintf(digest, sizeof(digest), "%s", m.digest);
	if (choose(w, &hold, image, creds, &m) != 0 ||
	    answer_value(w->out, bytes, sizeof(bytes), BYTES, "t", m.text) != 0)
		return -1;
	if (strtoll(bytes, NULL, 10) > w->limits->image_bytes)
		return refusal_set(&w->refusal, "act.large",
		    "the image has %s bytes, more than the setting act.image_bytes allows", bytes);
	here = is_here(w, image->name, digest);
	if (!w->args->dry && fetch(w, &hold, image, digest, creds) != 0)
		return -1;
	return answer_result(w->out, PULLED, "tititi", w->args->v[0], (int64_t)w->args->dry, digest,
	    (int64_t)strtoll(bytes, NULL, 10), m.text, (int64_t)here);
}

static int
pull(struct work *w)
{
	struct image image;
	const char *creds;

	if (work_lacks(w, "container:pull"))
		return -1;
	if (geteuid() != 0)
		return refusal_set(&w->refusal, "act.tool",
		    "images are kept in root's storage, and bastion's worker does not run as root here");
	if (image_read(w->args->v[0], strlen(w->args->v[0]), &image) != 0)
		return -1;
	if (w->args->pin[0] == '\0')
		return dial_look(w, &image.at);
	if (dial_holds(w, &image.at) != 0 || creds_known(w, &creds) != 0)
		return -1;
	return pull_held(w, &image, creds);
}

static int
run_pull(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct work w = work_of(args, limits, env, out);

	return work_ends(&w, pull(&w));
}

const struct observe_op act_container_pull = {
    .name = "container:pull",
    .usage = "IMAGE",
    .summary =
	"pull an image of containers into root's storage; dry: what it is, and whether it is here",
    .args_min = 1,
    .args_max = 1,
    .acts = true,
    .dials = true,
    .check = check_pull,
    .run = run_pull,
};
