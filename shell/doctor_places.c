/* doctor_places.c: the sockets and ports at which the daemon should answer. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/http/unixclient.h"
#include "shell/doctor_part.h"

static const char PORTS[] = "SELECT address, port FROM listen"
			    " UNION ALL SELECT address, port FROM remote_listen";

/* Who may speak there is who may open it: its owner alone. */
static void
look_mode(struct doctor *d, const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return; /* that nobody answers was said */
	if (!S_ISSOCK(st.st_mode) || st.st_uid != d->cli->home.owner || (st.st_mode & 077) != 0)
		doctor_note(d, "socket", DOCTOR_BAD,
		    "end the daemon, remove what is there, and start it again",
		    "%s is not a socket of its owner alone (mode %04o, user %u)", path,
		    (unsigned)st.st_mode & 07777, (unsigned)st.st_uid);
}

static void
look_socket(struct doctor *d)
{
	struct home *home = &d->cli->home;
	struct unixclient c = {.fd = -1};
	struct refusal r = {0};
	char path[HOME_RUN_MAX + 16];
	int status = -1;

	snprintf(path, sizeof(path), "%s/control.sock", home->run);
	if (unixclient_dial(&c, path, home->owner, unixclient_now() + DOCTOR_DIAL_MS, &r) == 0)
		status = unixclient_ask(&c, "GET", "/v1/status", NULL, 0, &r);
	unixclient_close(&c);
	if (status == 200)
		doctor_note(d, "socket", DOCTOR_OK, "", "%s answers", path);
	else if (status == -1)
		doctor_note_refusal(d, "socket", DOCTOR_BAD, &r);
	else
		doctor_note(
		    d, "socket", DOCTOR_BAD, "bastion status", "%s answers with %d", path, status);
	look_mode(d, path);
}

/* An address to listen on as one to dial: "*" is every one, so the loopback, too. */
static socklen_t
place_of(const char *address, int port, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *four = (struct sockaddr_in *)ss;
	char text[INET6_ADDRSTRLEN];

	memset(ss, 0, sizeof(*ss));
	if (address[0] == '[') {
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(address + 1, "]"), address + 1);
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, text, &six->sin6_addr) == 1 ? sizeof(*six) : 0;
	}
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)port);
	return inet_pton(
		   AF_INET, strcmp(address, "*") == 0 ? "127.0.0.1" : address, &four->sin_addr) == 1
		   ? sizeof(*four)
		   : 0;
}

/* Return 0 where somebody takes a connection there, or what connect says. */
static int
dial(const struct sockaddr_storage *ss, socklen_t len)
{
	int fd = socket(ss->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t size = sizeof(error);

	if (fd == -1)
		return errno;
	if (connect(fd, (const struct sockaddr *)ss, len) != 0)
		error = errno;
	if (error == EINPROGRESS) {
		error = ETIMEDOUT;
		if (poll(&p, 1, DOCTOR_DIAL_MS) == 1 &&
		    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
			error = errno;
	}
	close(fd);
	return error;
}

static void
look_ports(struct doctor *d)
{
	struct sockaddr_storage ss;
	const char *address;
	socklen_t len;
	struct stmt *q;
	int port, error;

	if ((q = store_sql(d->cli->db, PORTS)) == NULL)
		return;
	while (stmt_step(q) == 1) {
		address = stmt_get_text(q, 0);
		port = (int)stmt_get_int(q, 1);
		if ((len = place_of(address, port, &ss)) == 0)
			continue;
		if ((error = dial(&ss, len)) == 0)
			doctor_note(
			    d, "listener", DOCTOR_OK, "", "%s:%d takes connections", address, port);
		else
			doctor_note(d, "listener", DOCTOR_BAD,
			    "see the daemon's log, and who else has the port: ss -ltnp",
			    "%s:%d: %s", address, port, strerror(error));
	}
}

/* Only where a daemon should answer there. */
void
doctor_places(struct doctor *d)
{
	if (stmt_value(
		store_sql(d->cli->db, "SELECT count(*) FROM live_instance WHERE state = 'ready'"),
		0) != 1)
		return;
	look_socket(d);
	look_ports(d);
}
