/* audit_check.c: is this chain whole?  No database here, so that an export is held to the same. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "engine/crypto/key.h"
#include "engine/crypto/sha256.h"
#include "engine/state/audit_check.h"

static const char SEAL_DOMAIN[] = "bastion-audit-1";

int
audit_check_bad(struct audit_check *check, int64_t seq, const char *fmt, ...)
{
	va_list ap;

	check->report->bad = seq;
	va_start(ap, fmt);
	vsnprintf(check->report->what, sizeof(check->report->what), fmt, ap);
	va_end(ap);
	return AUDIT_BAD;
}

void
audit_check_begin(struct audit_check *check, const unsigned char *key,
    const struct audit_start *start, const struct checkpoint *kept, struct audit_report *report)
{
	memset(check, 0, sizeof(*check));
	memset(report, 0, sizeof(*report));
	sha256_hurry();
	check->key = key;
	check->kept = kept;
	check->report = report;
	check->tree = start->tree;
	memcpy(check->head, start->hash, sizeof(check->head));
	check->from = start->seq;
	report->last = start->seq;
}

/* Hold the tree as it is now against the checkpoint that was kept elsewhere, if it is of it. */
static int
check_kept(struct audit_check *check)
{
	unsigned char root[MERKLE_HASH];

	if (check->kept == NULL || check->tree.size != check->kept->size)
		return 0;
	merkle_root(&check->tree, root);
	if (memcmp(root, check->kept->root, sizeof(root)) == 0)
		return 0;
	return audit_check_bad(check, check->report->last,
	    "the rows up to %" PRId64 " are not those of the checkpoint that was kept: the chain "
	    "was written anew",
	    check->report->last);
}

static int
check_present(struct audit_check *check, int64_t seq)
{
	int64_t next;

	next = check->report->last + 1;
	if (seq > next && check->report->base == next)
		return audit_check_bad(
		    check, next, "row %" PRId64 ", where the audit begins, is missing", next);
	if (seq > next + 1)
		return audit_check_bad(
		    check, next, "rows %" PRId64 " to %" PRId64 " are missing", next, seq - 1);
	if (seq > next)
		return audit_check_bad(check, next, "row %" PRId64 " is missing", next);
	return 0;
}

static int
check_place(struct audit_check *check, const struct audit_row *row)
{
	if (row->prev == NULL || row->hash == NULL)
		return audit_check_bad(
		    check, row->seq, "row %" PRId64 " has no hash of 32 bytes", row->seq);
	if (row->seq <= check->report->last)
		return audit_check_bad(check, row->seq,
		    "row %" PRId64 " stands behind row %" PRId64, row->seq, check->report->last);
	return check_present(check, row->seq);
}

/* The first row where retention removed those before it: the one that was signed for then. */
static int
check_begins(struct audit_check *check, const struct audit_row *row)
{
	if (memcmp(row->hash, check->base, sizeof(check->base)) != 0)
		return audit_check_bad(check, row->seq,
		    "row %" PRId64 ", where the audit begins, is not the one that was signed",
		    row->seq);
	/* The hash, which was signed, covers what came before. */
	memcpy(check->head, row->prev, sizeof(check->head));
	return 0;
}

int
audit_check_leaf(struct audit_check *check, const unsigned char *leaf)
{
	check->report->last++;
	merkle_add(&check->tree, leaf, check->formed, check->ctx);
	return check_kept(check);
}

static int
check_first(struct audit_check *check, const struct audit_row *row)
{
	if (check->report->base != 0 && check_begins(check, row))
		return AUDIT_BAD;
	return check_kept(check);
}

int
audit_check_row(struct audit_check *check, const struct audit_row *row)
{
	unsigned char hash[32];

	if (check_place(check, row) || (check->report->rows == 0 && check_first(check, row)))
		return AUDIT_BAD;
	if (memcmp(row->prev, check->head, sizeof(check->head)) != 0)
		return audit_check_bad(check, row->seq,
		    "row %" PRId64 " does not follow from the row before it: one of "
		    "them was put there later",
		    row->seq);
	sha256_pair(check->head, sizeof(check->head), row->line, row->len, hash);
	if (memcmp(row->hash, hash, sizeof(hash)) != 0)
		return audit_check_bad(check, row->seq,
		    "row %" PRId64 " does not match its hash: it was edited", row->seq);

	memcpy(check->head, hash, sizeof(hash));
	if (check->report->rows++ == 0) {
		check->report->first = row->seq;
		check->report->first_at = row->at;
	}
	check->report->last = row->seq;
	check->report->last_at = row->at;
	check->report->behind++;
	merkle_leaf(hash, sizeof(hash), hash);
	merkle_add(&check->tree, hash, check->formed, check->ctx);
	return check_kept(check);
}

static bool
seal_signed(const struct audit_check *check, const struct audit_sealing *seal)
{
	return seal->head != NULL && seal->signature != NULL &&
	       key_verify(
		   check->key, SEAL_DOMAIN, seal->text, strlen(seal->text), seal->signature) == 0;
}

int
audit_check_base(struct audit_check *check, const struct audit_sealing *base)
{
	if (!seal_signed(check, base))
		return audit_check_bad(check, base->seq,
		    "rows before %" PRId64
		    " are missing, and not by the word of this machine's key",
		    base->seq);
	memcpy(check->base, base->head, sizeof(check->base));
	check->report->base = base->seq;
	check->report->base_at = base->at;
	return 0;
}

int
audit_check_seal(struct audit_check *check, const struct audit_sealing *seal)
{
	/* Rows that the machine once signed for and that are not there any more. */
	if (check_present(check, seal->seq + 1))
		return AUDIT_BAD;
	if (seal->seq < check->report->last || check->report->rows == 0)
		return audit_check_bad(check, seal->seq,
		    "the seal of row %" PRId64 " does not stand behind that row", seal->seq);
	if (!seal_signed(check, seal))
		return audit_check_bad(check, seal->seq,
		    "the seal of row %" PRId64 " is not of this machine's key%s", seal->seq,
		    check->report->seals == 0 ? ", or the key is another machine's" : "");
	if (memcmp(seal->head, check->head, sizeof(check->head)) != 0)
		return audit_check_bad(check, seal->seq,
		    "rows %" PRId64 " to %" PRId64 " are not those that were sealed: "
		    "the chain was written anew",
		    seal->seq - check->report->behind + 1, seal->seq);

	check->report->seals++;
	check->report->sealed = seal->seq;
	check->report->sealed_at = seal->at;
	memcpy(check->report->head, check->head, sizeof(check->head));
	check->report->behind = 0;
	return 0;
}

int
audit_check_checkpoint(struct audit_check *check, int64_t size, const unsigned char *root,
    const unsigned char *signature)
{
	struct checkpoint cp = {.size = (uint64_t)size};
	unsigned char here[MERKLE_HASH];

	/* Rows that the machine once signed for and that are not there any more. */
	if (check_present(check, size + 1))
		return AUDIT_BAD;
	if (size < check->report->last)
		return audit_check_bad(check, size,
		    "the checkpoint of row %" PRId64 " does not stand behind that row", size);
	if (root != NULL)
		memcpy(cp.root, root, sizeof(cp.root));
	if (root == NULL || signature == NULL || checkpoint_verify(check->key, &cp, signature) != 0)
		return audit_check_bad(check, size,
		    "the checkpoint of row %" PRId64 " is not of this machine's key%s", size,
		    check->report->checkpoints == 0 ? ", or the key is another machine's" : "");
	merkle_root(&check->tree, here);
	if (memcmp(here, root, sizeof(here)) != 0)
		return audit_check_bad(check, size,
		    "the rows up to %" PRId64 " are not those of its checkpoint: the chain was "
		    "written anew",
		    size);
	check->report->checkpoints++;
	check->report->size = size;
	memcpy(check->report->root, here, sizeof(here));
	return 0;
}

int
audit_check_end(struct audit_check *check)
{
	const struct audit_report *report = check->report;
	int64_t size;

	if (report->base != 0 && check_present(check, report->base + 1))
		return AUDIT_BAD;
	if (report->base != 0 && report->size < report->base)
		return audit_check_bad(check, report->base,
		    "no checkpoint covers row %" PRId64
		    ", where the audit begins: it was taken away",
		    report->base);
	if (check->kept == NULL)
		return 0;
	size = (int64_t)check->kept->size;
	if (size > report->last)
		return audit_check_bad(check, report->last + 1,
		    "the rows end at %" PRId64 ", but the checkpoint that was kept is of %" PRId64
		    ": the newest were cut off",
		    report->last, size);
	if (size < check->from)
		return audit_check_bad(check, report->first,
		    "the rows begin behind the checkpoint that was kept, of row %" PRId64, size);
	return 0;
}
