/* session_frame.c: JSON to rows, by SQLite's JSON functions. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/base64.h"
#include "net/http/json.h"
#include "shell/session_frame.h"

#define DEPTH 32

static const char FRAME[] =
    "SELECT :f ->> '$.seq', :f ->> '$.kind', :f ->> '$.line', :f ->> '$.lines',"
    " :f ->> '$.text', :f ->> '$.base64', :f ->> '$.x', :f ->> '$.state',"
    " :f ->> '$.reason', coalesce(:f ->> '$.id', 0)";

struct sqlite3_stmt *
session_frame_query(
    struct session_frames *frames, const char *sql, const char *text, size_t len, struct refusal *r)
{
	sqlite3_stmt *q;

	if ((frames->json == NULL && sqlite3_open(":memory:", &frames->json) != SQLITE_OK) ||
	    http_json_check(text, len, DEPTH, r) != 0 ||
	    sqlite3_prepare_v2(frames->json, sql, -1, &q, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_bind_text(q, 1, text, (int)len, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW)
		return q;
	sqlite3_finalize(q);
	return NULL;
}

static const char *
column(sqlite3_stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q, i);

	return text == NULL ? "" : (const char *)text;
}

static int
no_frame(struct refusal *r)
{
	return refusal_set(r, "http.protocol", "what was answered is no row of this session");
}

static int
row_show(struct session_view *view, sqlite3_stmt *q, struct refusal *r)
{
	struct session_row row = {.seq = sqlite3_column_int64(q, 0),
	    .line = sqlite3_column_int64(q, 2),
	    .lines = sqlite3_column_int64(q, 3),
	    .data = column(q, 4),
	    .len = (size_t)sqlite3_column_bytes(q, 4)};
	const char *coded = column(q, 5);
	char *data = NULL;
	ssize_t n;
	int rc;

	if (row.seq <= view->seq)
		return no_frame(r); /* rows come in order */
	snprintf(row.kind, sizeof(row.kind), "%s", column(q, 1));
	if (coded[0] != '\0') {
		size_t len = strlen(coded);

		if ((data = malloc(len)) == NULL ||
		    (n = base64_read(coded, len, NULL, data, len)) == -1) {
			free(data);
			return no_frame(r);
		}
		row.data = data;
		row.len = (size_t)n;
	}
	if ((rc = session_view_row(view, &row)) != 0)
		refusal_errno(r, "session.watch", "standard output");
	free(data);
	return rc;
}

/* All of them are of one session, whoever has its name meanwhile. */
static bool
is_of_it(struct session_frames *frames, int64_t id)
{
	if (frames->id == 0)
		frames->id = id;
	return id == frames->id;
}

int
session_frame_show(struct session_frames *frames, struct session_view *view, const char *text,
    size_t len, struct refusal *r)
{
	sqlite3_stmt *q = session_frame_query(frames, FRAME, text, len, r);
	int rc = 0;

	if (q == NULL)
		return no_frame(r);
	if (!is_of_it(frames, sqlite3_column_int64(q, 9))) {
		rc = no_frame(r);
	} else if (sqlite3_column_type(q, 6) == SQLITE_INTEGER) {
		frames->over = true;
		frames->code = sqlite3_column_int(q, 6) & 0xff;
		snprintf(frames->state, sizeof(frames->state), "%s", column(q, 7));
		snprintf(frames->reason, sizeof(frames->reason), "%s", column(q, 8));
	} else {
		rc = row_show(view, q, r);
	}
	sqlite3_finalize(q);
	return rc;
}

void
session_frame_drop(struct session_frames *frames)
{
	sqlite3_close(frames->json);
	frames->json = NULL;
}
