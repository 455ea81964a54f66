/* audit_proof.c: proofs, made from a database and checked without one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/base64.h"
#include "engine/state/audit_export.h"
#include "engine/state/audit_proof.h"
#include "engine/state/audit_tree.h"

static const char PROOF_HEAD[] = "SELECT coalesce(max(seq), 0) FROM audit";

static const char PROOF_GONE[] = "SELECT gone_to FROM retention WHERE entity = 'audit'";

/* The checkpoint to prove under.  Return its size, or -1 with why there is none. */
static int64_t
note_find(struct store *db, const unsigned char *pk, int64_t size, char note[CHECKPOINT_TEXT])
{
	int64_t found;

	if ((found = audit_checkpoint(db, pk, size, note)) != 0)
		return found;
	if (size != 0)
		return refusal_set(store_refusal(db), "checkpoint.size",
		    "no checkpoint of %" PRId64 " rows was signed", size);
	return refusal_set(
	    store_refusal(db), "checkpoint.none", "no checkpoint of this audit was signed yet");
}

static int
proof_write(struct store *db, const struct checkpoint_proof *proof, const char *extra,
    const char *note, FILE *out)
{
	if (checkpoint_proof_write(proof, extra, note, out) != 0 || fflush(out) != 0)
		return refusal_errno(store_refusal(db), "store.failed", "the proof");
	return 0;
}

static void
row_missing(struct store *db, int64_t seq)
{
	int64_t gone = stmt_value(store_sql(db, PROOF_GONE), 0);

	if (seq >= 1 && seq <= gone)
		refusal_set(store_refusal(db), "checkpoint.size",
		    "row %" PRId64 " was exported and removed: the audit begins at row %" PRId64,
		    seq, gone + 1);
	else
		refusal_set(store_refusal(db), "checkpoint.size",
		    "row %" PRId64 " is not in the audit", seq);
}

/* The line of a row as a string that the caller frees; NULL with a refusal. */
static char *
row_text(struct store *db, int64_t seq)
{
	char *text = NULL;
	size_t len;
	FILE *f;
	int n = -1;

	if ((f = open_memstream(&text, &len)) == NULL) {
		refusal_errno(store_refusal(db), "store.failed", "the row");
		return NULL;
	}
	n = audit_export_row(db, seq, f);
	if (fclose(f) != 0 && n == 1)
		n = refusal_errno(store_refusal(db), "store.failed", "the row");
	if (n == 1)
		return text;
	if (n == 0)
		row_missing(db, seq);
	free(text);
	return NULL;
}

int
audit_prove(struct store *db, const unsigned char *pk, int64_t seq, FILE *out)
{
	struct checkpoint_proof proof = {.kind = PROOF_INCLUSION, .number = (uint64_t)seq - 1};
	char note[CHECKPOINT_TEXT], *row;
	int64_t size;
	int rc;

	if ((row = row_text(db, seq)) == NULL)
		return -1;
	if ((size = note_find(db, pk, 0, note)) != -1 && seq > size)
		size = refusal_set(store_refusal(db), "checkpoint.none",
		    "the newest checkpoint is of %" PRId64 " rows, and does not cover row %" PRId64,
		    size, seq);
	rc = size == -1 || audit_tree_prove(db, seq, size, &proof.proof) != 0
		 ? -1
		 : proof_write(db, &proof, row, note, out);
	free(row);
	return rc;
}

int
audit_follow(struct store *db, const unsigned char *pk, int64_t old, int64_t size, FILE *out)
{
	struct checkpoint_proof proof = {.kind = PROOF_CONSISTENCY, .number = (uint64_t)old};
	char note[CHECKPOINT_TEXT];

	if ((size = note_find(db, pk, size, note)) == -1)
		return -1;
	if (old < 1 || old > size)
		return refusal_set(store_refusal(db), "checkpoint.size",
		    "the older of the two has 1 to %" PRId64 " rows", size);
	if (audit_tree_follow(db, old, size, &proof.proof) != 0)
		return -1;
	return proof_write(db, &proof, NULL, note, out);
}

int
audit_witness(struct store *db, const unsigned char *pk, const struct checkpoint *held, FILE *out)
{
	struct checkpoint_proof proof = {.kind = PROOF_CONSISTENCY};
	unsigned char root[MERKLE_HASH];
	char note[CHECKPOINT_TEXT];
	struct merkle_tree tree;
	int64_t size, rows;

	if ((size = audit_checkpoint(db, pk, 0, note)) == -1)
		return -1;
	if (held == NULL)
		return size == 0 ? 1 : proof_write(db, &proof, NULL, note, out);
	if ((rows = stmt_value(store_sql(db, PROOF_HEAD), -1)) == -1)
		return -1;
	if (held->size > (uint64_t)size)
		return refusal_set(store_refusal(db), "witness.behind",
		    "the Host was shown a checkpoint of %" PRIu64 " rows of this machine's audit, "
		    "which has signed %" PRId64 " of its %" PRId64 ": its database is an older one",
		    held->size, size, rows);
	if (audit_tree_load(db, (int64_t)held->size, &tree) != 0)
		return -1;
	merkle_root(&tree, root);
	if (memcmp(root, held->root, sizeof(root)) != 0)
		return refusal_set(store_refusal(db), "witness.forked",
		    "the first %" PRIu64 " rows of this machine's audit are not those that the "
		    "Host was shown: its database is another one, or was written anew",
		    held->size);
	proof.number = held->size;
	if (audit_tree_follow(db, (int64_t)held->size, size, &proof.proof) != 0)
		return -1;
	return proof_write(db, &proof, NULL, note, out);
}

/*
 * Checking.
 */

/* The row that came with a proof of inclusion, and its leaf. */
static int
row_check(const struct checkpoint_proof *text, int64_t *seq, unsigned char leaf[MERKLE_HASH],
    struct refusal *r)
{
	unsigned char *row;
	ssize_t len;
	int rc;

	if (text->extra == NULL)
		return refusal_set(r, "proof.form", "the proof does not carry its row");
	if ((row = malloc(text->extra_len + 1)) == NULL)
		return refusal_errno(r, "store.failed", "the proof");
	len = base64_read(text->extra, text->extra_len, NULL, row, text->extra_len + 1);
	if (len == -1) {
		free(row);
		return refusal_set(r, "proof.form", "the row of the proof is not in base64");
	}
	rc = audit_export_hash((const char *)row, (size_t)len, seq, leaf, r);
	free(row);
	if (rc == AUDIT_BAD)
		return refusal_set(r, "proof.wrong",
		    "the row that came with the proof was edited: it does not match its hash");
	if (rc == -1)
		return -1;
	merkle_leaf(leaf, MERKLE_HASH, leaf);
	if ((uint64_t)*seq - 1 != text->number)
		return refusal_set(
		    r, "proof.wrong", "the proof is of another row than the one that came with it");
	return 0;
}

static int
inclusion_check(const struct checkpoint_proof *text, const struct checkpoint *cp,
    struct audit_proof *proof, struct refusal *r)
{
	unsigned char leaf[MERKLE_HASH];

	if (row_check(text, &proof->seq, leaf, r) != 0)
		return -1;
	if (merkle_included(text->number, cp->size, leaf, &text->proof, cp->root) != 0)
		return refusal_set(r, "proof.wrong",
		    "row %" PRId64 " is not in the audit that the checkpoint is of", proof->seq);
	return 0;
}

static int
consistency_check(const struct checkpoint_proof *text, const struct checkpoint *old,
    const struct checkpoint *cp, struct refusal *r)
{
	if (old == NULL)
		return refusal_set(r, "usage.wrong",
		    "a proof of consistency is checked against the older checkpoint: --checkpoint");
	if (text->number != old->size)
		return refusal_set(r, "proof.wrong",
		    "the proof is from %" PRIu64 " rows on, the older checkpoint is of %" PRIu64,
		    text->number, old->size);
	if (merkle_extended(old->size, old->root, cp->size, cp->root, &text->proof) != 0)
		return refusal_set(r, "proof.wrong",
		    "the audit of %" PRIu64 " rows does not go on from that of %" PRIu64
		    ": it was written anew",
		    cp->size, old->size);
	return 0;
}

int
audit_proof_check(const char *text, size_t len, const unsigned char *pk,
    const struct checkpoint *old, struct audit_proof *proof, struct refusal *r)
{
	struct checkpoint_proof parts;
	struct checkpoint cp;

	memset(proof, 0, sizeof(*proof));
	if (len > AUDIT_PROOF_MAX)
		return refusal_set(r, "proof.form", "the proof is too long");
	if (checkpoint_proof_read(text, len, &parts, r) != 0 ||
	    checkpoint_read(pk, parts.note, parts.note_len, &cp, r) != 0)
		return -1;
	proof->kind = parts.kind;
	proof->size = (int64_t)cp.size;
	proof->old = (int64_t)parts.number;
	return parts.kind == PROOF_INCLUSION ? inclusion_check(&parts, &cp, proof, r)
					     : consistency_check(&parts, old, &cp, r);
}
