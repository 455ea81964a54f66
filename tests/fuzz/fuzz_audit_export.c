/* fuzz_audit_export.c: what comes from outside: exports, checkpoints, proofs, keys, words to
 * search. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/checkpoint.h"
#include "engine/state/audit_export.h"
#include "engine/state/audit_proof.h"
#include "engine/state/audit_search.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_export(const char *text, size_t size, const unsigned char *pk)
{
	struct checkpoint kept = {.size = 3};
	struct audit_report report;
	struct refusal r;
	FILE *in;

	if (size == 0 || (in = fmemopen((void *)(uintptr_t)text, size, "r")) == NULL)
		return;
	if (audit_export_verify(in, pk, &kept, NULL, &report, &r) == 0)
		abort(); /* nobody has that checkpoint */
	fclose(in);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char pk[32] = {1};
	char text[CHECKPOINT_MAX + 2], expression[8 * AUDIT_SEARCH_WORDS];
	struct audit_proof proof;
	struct checkpoint cp = {.size = 2};
	unsigned char key[32];
	struct refusal r;

	if (size > CHECKPOINT_MAX)
		return -1;
	memcpy(text, data, size);
	text[size] = '\0';
	read_export(text, size, pk);
	if (checkpoint_read(pk, text, size, &cp, &r) == 0)
		abort(); /* nobody has signed for this key */
	cp.size = 2;
	audit_proof_check(text, size, pk, &cp, &proof, &r);
	checkpoint_key_read(text, key);
	if (strlen(text) == size)
		audit_search_expression(text, expression, &r);
	return 0;
}
