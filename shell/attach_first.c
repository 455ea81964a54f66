/* attach_first.c: the beginning of a session, from the daemon, whose database is open. */
#include <stdio.h>
#include <string.h>

#include "net/http/unixclient.h"
#include "shell/attach.h"
#include "shell/session_frame.h"

#define NAME_BYTES 128
#define WAIT_MS    200 /* a daemon that is slower than to open the database is not waited for */
#define ROWS       1   /* as large as the others: more would be read there, and here again */

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

/* Show what comes.  Return -1 where that cannot be shown. */
static int
show(struct unixclient *c, struct session_frames *frames, struct session_view *view,
    struct refusal *r)
{
	char *line;

	while (unixclient_line(c, &line, r) == 1)
		if (session_frame_show(frames, view, line, strlen(line), r) != 0)
			return strcmp(r->code, "session.watch") == 0 ? -1 : 0;
	return 0;
}

/* Another daemon may listen there than that of our state: it refuses. */
static int
target_of(const struct home *home, const char *name, char *target, size_t size)
{
	char state[HOME_TOKEN_SIZE];
	int n;

	if (strlen(name) > NAME_BYTES || name[strspn(name, LETTERS)] != '\0' ||
	    home_token(home, state) != 0)
		return -1;
	n = snprintf(target, size, "/v1/sessions/%s/output?most=%d&state=%s", name, ROWS, state);
	return n > 0 && (size_t)n < size ? 0 : -1;
}

/* Ask, and show.  Return as attach_first. */
static int
ask(struct cli *cli, const char *name, struct session_view *view, int64_t *id)
{
	char path[sizeof(cli->home.run) + sizeof("/control.sock")], target[NAME_BYTES + 128];
	struct session_frames frames = {.json = NULL};
	struct unixclient c;
	struct refusal r;
	int rc = 0;

	snprintf(path, sizeof(path), "%s/control.sock", cli->home.run);
	if (target_of(&cli->home, name, target, sizeof(target)) != 0 ||
	    unixclient_dial(&c, path, cli->home.owner, unixclient_now() + WAIT_MS, &r) != 0)
		return 0;
	if (unixclient_ask(&c, "GET", target, NULL, 0, &r) == 200)
		rc = show(&c, &frames, view, &r);
	unixclient_close(&c);
	session_frame_drop(&frames);
	*id = frames.id;
	if (rc != 0)
		cli->refusal = r;
	return rc;
}

int
attach_first(struct cli *cli, const char *name, struct session_view *view, int64_t *id)
{
	struct refusal ignored;
	int rc;

	*id = 0;
	if (home_open(&cli->home, cli->role, false, &ignored) == -1)
		return 0; /* said by whoever opens it next */
	rc = ask(cli, name, view, id);
	home_close(&cli->home);
	cli->home.fd = -1;
	return rc;
}
