/* beat.c: the beat of a box, and what its Host makes of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "engine/state/beat.h"

static const char BEAT[] =
    "SELECT json_set(body, '$.version', :version, '$.platform', lower(:system) || ' ' || :machine)"
    "  FROM beat WHERE pairing_id = :pairing";

static const char INVALID[] = "SELECT EXISTS (SELECT 1 FROM pairing_invalid WHERE id = :pairing)";

static const char TAKE[] =
    "INSERT INTO host_beat (box_id, beat, at) VALUES (:box, :beat, now_ms())";

static const char SENT[] =
    "UPDATE host_order SET state = 'sent', sent_at = now_ms()"
    " WHERE state = 'waiting' AND id IN (SELECT id FROM host_order_due WHERE box_id = :box)";

/* Whatever became of an order here, the box need not tell its result again. */
static const char ANSWER[] =
    "SELECT json_object('at', now_ms(),"
    "    'heard', (SELECT json_group_array(value ->> '$.order') FROM json_each(:beat, '$.orders')),"
    "    'directives', (SELECT json_group_array(json_object('terms', terms,"
    "         'signature', lower(hex(signature)))) FROM host_order_due WHERE box_id = :box))";

/* A copy of the first column of ${q}, which the caller frees; NULL without memory. */
static char *
text_copy(struct store *db, struct stmt *q)
{
	char *text;

	if ((text = strdup(stmt_get_text(q, 0))) == NULL)
		refusal_set(store_refusal(db), "store.failed", "out of memory");
	stmt_done(q);
	return text;
}

static int
not_served(struct store *db, int64_t pairing_id)
{
	struct stmt *q;

	if ((q = store_sql(db, INVALID)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing_id);
	if (stmt_value(q, 0) == 1)
		return refusal_set(
		    store_refusal(db), "pairing.invalid", "this pairing is not served");
	return refusal_set(
	    store_refusal(db), "pairing.inactive", "this Host has no active pairing here");
}

int
beat_make(struct store *db, int64_t pairing_id, char **body)
{
	struct utsname machine;
	struct stmt *q;
	int rc;

	if (uname(&machine) != 0)
		return refusal_errno(store_refusal(db), "store.failed", "the name of this system");
	if ((q = store_sql(db, BEAT)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing_id);
	stmt_text(q, ":version", BASTION_VERSION);
	stmt_text(q, ":system", machine.sysname);
	stmt_text(q, ":machine", machine.machine);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1 : not_served(db, pairing_id);
	return (*body = text_copy(db, q)) == NULL ? -1 : 0;
}

static struct stmt *
of_box(struct store *db, const char *sql, int64_t box_id)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) != NULL)
		stmt_int(q, ":box", box_id);
	return q;
}

int
beat_take(struct store *db, int64_t box_id, const char *beat, size_t len, char **answer)
{
	struct stmt *q;

	if ((q = of_box(db, TAKE, box_id)) == NULL)
		return -1;
	stmt_text_n(q, ":beat", beat, len);
	if (stmt_run_one(q) != 0)
		return -1;
	/* The answer first: what is sent now is what waits or was sent before. */
	if ((q = of_box(db, ANSWER, box_id)) == NULL)
		return -1;
	stmt_text_n(q, ":beat", beat, len);
	if (stmt_step(q) != 1 || (*answer = text_copy(db, q)) == NULL)
		return -1;
	if ((q = of_box(db, SENT, box_id)) != NULL && stmt_run(q) == 0)
		return 0;
	free(*answer);
	*answer = NULL;
	return -1;
}
