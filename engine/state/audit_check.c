/* audit_check.c: is this chain whole?  No database here, so that an export is held to the same. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "engine/crypto/key.h"
#include "engine/state/audit_check.h"

static const char SEAL_DOMAIN[] = "bastion-audit-1";

static int check_bad(struct audit_check *check, int64_t seq, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int
check_bad(struct audit_check *check, int64_t seq, const char *fmt, ...)
{
	va_list ap;

	check->report->bad = seq;
	va_start(ap, fmt);
	vsnprintf(check->report->what, sizeof(check->report->what), fmt, ap);
	va_end(ap);
	return AUDIT_BAD;
}

void
audit_check_begin(
    struct audit_check *check, const unsigned char *key, bool whole, struct audit_report *report)
{
	memset(check, 0, sizeof(*check));
	memset(report, 0, sizeof(*report));
	check->key = key;
	check->anchored = whole;
	check->report = report;
}

static int
check_present(struct audit_check *check, int64_t seq)
{
	int64_t next;

	next = check->report->last + 1;
	if (seq > next + 1)
		return check_bad(
		    check, next, "rows %" PRId64 " to %" PRId64 " are missing", next, seq - 1);
	if (seq > next)
		return check_bad(check, next, "row %" PRId64 " is missing", next);
	return 0;
}

/* The first row where retention removed those before it. */
static int
check_begins(struct audit_check *check, const struct audit_row *row)
{
	int64_t base = check->report->base;

	if (base == 0)
		return 0;
	if (row->seq != base)
		return check_bad(
		    check, base, "row %" PRId64 ", where the audit begins, is missing", base);
	if (memcmp(row->hash, check->base, sizeof(check->base)) != 0)
		return check_bad(check, base,
		    "row %" PRId64 ", where the audit begins, is not the one that was signed",
		    base);
	return 0;
}

static int
check_place(struct audit_check *check, const struct audit_row *row)
{
	if (row->prev == NULL || row->hash == NULL)
		return check_bad(
		    check, row->seq, "row %" PRId64 " has no hash of 32 bytes", row->seq);

	if (!check->anchored && check_begins(check, row))
		return AUDIT_BAD;
	/* The first row of a part: what came before it is not ours to see. */
	if (!check->anchored && row->seq > 1) {
		memcpy(check->head, row->prev, sizeof(check->head));
		check->report->last = row->seq - 1;
	}
	check->anchored = true;
	if (row->seq <= check->report->last)
		return check_bad(check, row->seq, "row %" PRId64 " stands behind row %" PRId64,
		    row->seq, check->report->last);
	return check_present(check, row->seq);
}

int
audit_check_row(struct audit_check *check, const struct audit_row *row)
{
	crypto_hash_sha256_state sum;
	unsigned char hash[32];

	if (check_place(check, row))
		return AUDIT_BAD;
	if (memcmp(row->prev, check->head, sizeof(check->head)) != 0)
		return check_bad(check, row->seq,
		    "row %" PRId64 " does not follow from the row before it: one of "
		    "them was put there later",
		    row->seq);
	crypto_hash_sha256_init(&sum);
	crypto_hash_sha256_update(&sum, check->head, sizeof(check->head));
	crypto_hash_sha256_update(&sum, (const unsigned char *)row->line, strlen(row->line));
	crypto_hash_sha256_final(&sum, hash);
	if (memcmp(row->hash, hash, sizeof(hash)) != 0)
		return check_bad(check, row->seq,
		    "row %" PRId64 " does not match its hash: it was edited", row->seq);

	memcpy(check->head, hash, sizeof(hash));
	if (check->report->rows++ == 0) {
		check->report->first = row->seq;
		check->report->first_at = row->at;
	}
	check->report->last = row->seq;
	check->report->last_at = row->at;
	check->report->behind++;
	return 0;
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
		return check_bad(check, base->seq,
		    "rows before %" PRId64
		    " are missing, and not by the word of this machine's key",
		    base->seq);
	check->anchored = false;
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
		return check_bad(check, seal->seq,
		    "the seal of row %" PRId64 " does not stand behind that row", seal->seq);
	if (!seal_signed(check, seal))
		return check_bad(check, seal->seq,
		    "the seal of row %" PRId64 " is not of this machine's key%s", seal->seq,
		    check->report->seals == 0 ? ", or the key is another machine's" : "");
	if (memcmp(seal->head, check->head, sizeof(check->head)) != 0)
		return check_bad(check, seal->seq,
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
