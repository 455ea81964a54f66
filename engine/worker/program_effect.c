/* program_effect.c: layers of changes to JSON, and to the disk. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/program_effect.h"
#include "engine/worker/pump.h"

static void
entry_say(FILE *out, const char *folder, const struct effect_entry *n)
{
	fprintf(out, "{\"change\":\"%s\",\"type\":\"%s\",\"path\":\"",
	    effect_change_name(n->change), effect_type_name(n->type));
	pump_string(out, folder, strlen(folder));
	putc('/', out);
	pump_string(out, n->path, strlen(n->path));
	fprintf(out, "\",\"mode\":\"%04o\",\"bytes\":%" PRId64 ",\"entries\":%" PRId64,
	    (unsigned)n->mode, n->bytes, n->count);
	if (n->why != NULL)
		fprintf(out, ",\"why\":\"%s\"", n->why);
	putc('}', out);
}

int
program_effects_add(struct program_effects *e, const char *folder, struct refusal *refusal)
{
	size_t n = e->folder_count;

	if (n == SANDBOX_EFFECTS)
		return refusal_set(refusal, "sandbox.plan",
		    "the changes of at most %d folders are gathered", SANDBOX_EFFECTS);
	if ((e->opened[n] = effect_open(folder, refusal)) == -1)
		return -1;
	if ((e->folders[n] = strdup(folder)) == NULL) {
		close(e->opened[n]);
		return refusal_set(refusal, "op.start", "out of memory");
	}
	e->folder_count++;
	return 0;
}

/* List the changes of all folders, and hash them together. */
static int
list(struct program_effects *e, struct effect *effects, FILE *out)
{
	crypto_hash_sha256_state h;
	size_t i, j, shown = 0;

	crypto_hash_sha256_init(&h);
	fputs("\"changes\":[", out);
	for (i = 0; i < e->layer_count; i++) {
		if (effect_read(&effects[i], e->opened[i], &e->overlaid[i], e->layers[i], e->most,
			&e->refusal) == -1)
			return -1;
		e->changes += (int64_t)effects[i].count;
		e->left_out += (int64_t)effects[i].left_out;
		crypto_hash_sha256_update(&h, effects[i].digest, EFFECT_DIGEST);
		for (j = 0; j < effects[i].count && shown < e->listed; j++) {
			if ((size_t)ftell(out) > e->bytes)
				break;
			if (shown++ > 0)
				putc(',', out);
			entry_say(out, e->folders[i], &effects[i].entries[j]);
		}
	}
	crypto_hash_sha256_final(&h, e->digest);
	fprintf(out, "],\"more\":%" PRId64 ",\"left_out\":%" PRId64, e->changes - (int64_t)shown,
	    e->left_out);
	return 0;
}

static int
apply(struct program_effects *e, struct effect *effects)
{
	size_t i, n;
	int rc = 0;

	e->applied = 0;
	for (i = 0; rc == 0 && i < e->layer_count; i++) {
		rc = effect_apply(&effects[i], &n, &e->refusal);
		e->applied += (int64_t)n;
	}
	return rc;
}

void
program_effects_take(struct program_effects *e)
{
	struct effect effects[SANDBOX_EFFECTS];
	char digest[2 * EFFECT_DIGEST + 1];
	FILE *out;
	size_t i;

	memset(effects, 0, sizeof(effects));
	e->applied = -1;
	e->rc = -1;
	if (e->layer_count != e->folder_count) {
		refusal_set(&e->refusal, "sandbox.effect", "a layer of changes is missing");
		return;
	}
	if ((out = open_memstream(&e->json, &e->json_len)) == NULL) {
		refusal_set(&e->refusal, "store.failed", "out of memory");
		return;
	}
	e->rc = list(e, effects, out);
	if (e->rc == 0 && e->apply)
		e->rc = apply(e, effects);
	sodium_bin2hex(digest, sizeof(digest), e->digest, sizeof(e->digest));
	fprintf(out, ",\"applied\":%" PRId64 ",\"digest\":\"%s\"", e->applied < 0 ? 0 : e->applied,
	    digest);
	if (fclose(out) != 0 && e->rc == 0)
		e->rc = refusal_set(&e->refusal, "store.failed", "out of memory");
	for (i = 0; i < e->layer_count; i++)
		effect_free(&effects[i]);
}

void
program_effects_free(struct program_effects *e)
{
	size_t i;

	for (i = 0; i < e->layer_count; i++)
		close(e->layers[i]);
	for (i = 0; i < e->folder_count; i++) {
		close(e->opened[i]);
		free(e->folders[i]);
	}
	free(e->json);
	e->layer_count = e->folder_count = 0;
	e->json = NULL;
}
