/* say.c: refusals on the wire. */
#include <stdio.h>
#include <string.h>

#include "net/egress/say.h"

static const char REFUSAL_ROW[] = "SELECT http_status, advice FROM refusal WHERE code = :code";

int
say_text(struct store *db, const struct refusal *refusal, char text[SAY_TEXT_MAX])
{
	struct stmt *q = store_sql(db, REFUSAL_ROW);
	int status = 500;
	char *at;

	snprintf(text, SAY_TEXT_MAX, "%s [%s]", refusal->why, refusal->code);
	if (q != NULL) {
		stmt_text(q, ":code", refusal->code);
		if (stmt_step(q) == 1) {
			status = (int)stmt_get_int(q, 0);
			snprintf(text, SAY_TEXT_MAX, "%s [%s]; %s", refusal->why, refusal->code,
			    stmt_get_text(q, 1));
			stmt_done(q);
		}
	}
	for (at = text; *at != '\0'; at++)
		if (*at == '\r' || *at == '\n')
			*at = ' ';
	return status;
}

size_t
say_http(struct store *db, const struct refusal *refusal, char out[SAY_HTTP_MAX])
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {{400, "Bad Request"}, {403, "Forbidden"}, {502, "Bad Gateway"},
	    {503, "Service Unavailable"}, {504, "Gateway Timeout"}};
	const char *reason = "Refused";
	char text[SAY_TEXT_MAX];
	int status = say_text(db, refusal, text);
	size_t i;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			reason = reasons[i].reason;
	return (size_t)snprintf(out, SAY_HTTP_MAX,
	    "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
	    "Connection: close\r\n%s%s%s\r\n%s\n",
	    status, reason, strlen(text) + 1,
	    status == 502 ? "" : "X-Bastion-Refused: ", status == 502 ? "" : text,
	    status == 502 ? "" : "\r\n", text);
}
