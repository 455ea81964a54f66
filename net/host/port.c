/* port.c: the listener under TLS, opened and opened anew as the rows say. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/host/ends.h"
#include "net/host/port.h"
#include "net/http/tls_pump.h"

#define PLACE_MAX 64
#define STATE_MAX 512
#define WHAT      "the port for boxes and Hosts"

/* Where to listen, and what there is to show and to trust: another text is another listener. */
static const char WANTED[] =
    "SELECT l.address, l.port, l.address || ' ' || l.port,"
    "       i.id || ' ' || (SELECT coalesce(group_concat(t.pairing_id), '') FROM pairing_tls AS t"
    "                         JOIN pairing AS p ON p.id = t.pairing_id WHERE p.transport = 'tls')"
    "  FROM listen AS l JOIN tls_identity AS i ON i.use = 'server' AND i.pairing_id IS NULL"
    "   AND i.state = 'current'"
    " WHERE l.what = 'host' OR EXISTS (SELECT 1 FROM pairing WHERE transport = 'tls'"
    "                                     AND state <> 'revoked')";

struct port {
	int fd; /* the listening socket, of which the server has another descriptor; -1 */
	char place[PLACE_MAX], state[STATE_MAX]; /* what it stands for */
	struct refusal said;                     /* what was wrong last, so that it is said once */
};

/* What there should be. */
struct wanted {
	char address[48], place[PLACE_MAX], state[STATE_MAX];
	uint16_t port;
};

/* Return 1 with ${w}, 0 for no listener, -1. */
static int
wanted_read(struct store *db, struct wanted *w)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, WANTED)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc;
	snprintf(w->address, sizeof(w->address), "%s", stmt_get_text(q, 0));
	w->port = (uint16_t)stmt_get_int(q, 1);
	snprintf(w->place, sizeof(w->place), "%s", stmt_get_text(q, 2));
	snprintf(w->state, sizeof(w->state), "%s", stmt_get_text(q, 3));
	stmt_done(q);
	return 1;
}

/* ${address}: "*", four numbers, or IPv6 in brackets. */
static socklen_t
address_of(const char *address, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	char text[INET6_ADDRSTRLEN];

	memset(out, 0, sizeof(*out));
	if (address[0] != '*' && address[0] != '[') {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return inet_pton(AF_INET, address, &four->sin_addr) == 1 ? sizeof(*four) : 0;
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	if (address[0] == '*')
		return sizeof(*six);
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(address + 1, "]"), address + 1);
	return inet_pton(AF_INET6, text, &six->sin6_addr) == 1 ? sizeof(*six) : 0;
}

/* Every address is one socket for both families; without IPv6 in the kernel, for the older one. */
int
port_bind(const char *address, uint16_t port, const char *what, struct refusal *r)
{
	struct sockaddr_storage name;
	socklen_t len = address_of(address, port, &name);
	int fd, off = 0, on = 1;

	fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1 && address[0] == '*')
		return port_bind("0.0.0.0", port, what, r);
	if (fd != -1 && len > 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (name.ss_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY,
					       address[0] == '*' ? &off : &on, sizeof(on)) == 0) &&
	    bind(fd, (const struct sockaddr *)&name, len) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	refusal_errno(r, "socket.bind", what);
	if (fd != -1)
		close(fd);
	return -1;
}

/* Serve on another descriptor of ${port}'s socket, with the present certificate. */
static int
port_serve(struct net *net, struct port *port, struct refusal *r)
{
	bool host = net->env->home->role == HOME_HOST;
	struct store *db = net->env->db;
	struct tls_identity identity;
	struct tls_config config = {.cert = &identity.cert,
	    .key = &identity.key,
	    .issuer = &identity.issuer,
	    .cas = identity.authorities,
	    .ask = host ? TLS_ASK_OPTIONAL : TLS_ASK_REQUIRED};
	struct tls_limits limits;
	int fd, rc;

	if (tls_server(db, net->env->wire, &identity) != 0) {
		*r = *store_refusal(db);
		return -1;
	}
	config.ncas = identity.nauthorities;
	ends_limits(db, &limits);
	http_listen_end(net->server, SURFACE_GUEST);
	fd = fcntl(port->fd, F_DUPFD_CLOEXEC, 0);
	rc = fd == -1 ? refusal_errno(r, "socket.bind", WHAT)
		      : http_listen_tls(net->server, fd, SURFACE_GUEST, &config, &limits, r);
	tls_identity_free(&identity);
	return rc;
}

static void
place_leave(struct net *net, struct port *port)
{
	http_listen_end(net->server, SURFACE_GUEST);
	if (port->fd != -1)
		close(port->fd);
	port->fd = -1;
	port->place[0] = port->state[0] = '\0';
}

/* Be at the place of ${w}. */
static int
place_take(struct net *net, struct port *port, const struct wanted *w, struct refusal *r)
{
	if (port->fd != -1 && strcmp(port->place, w->place) == 0)
		return 0;
	place_leave(net, port);
	if ((port->fd = port_bind(w->address, w->port, WHAT, r)) == -1)
		return -1;
	snprintf(port->place, sizeof(port->place), "%s", w->place);
	return 0;
}

static void
port_say(struct port *port, const struct refusal *r)
{
	if (strcmp(port->said.why, r->why) != 0)
		fprintf(stderr, "bastion: net: the port under TLS: %s [%s]\n", r->why, r->code);
	port->said = *r;
}

void
port_wake(struct net *net)
{
	struct port *port = net->port;
	struct refusal r = {.code = ""};
	struct wanted w;
	int rc;

	if (net->drained || (port == NULL && (port = calloc(1, sizeof(*port))) == NULL))
		return;
	if (net->port == NULL)
		port->fd = -1;
	net->port = port;
	if ((rc = wanted_read(net->env->db, &w)) == 0)
		place_leave(net, port);
	if (rc != 1 || (port->fd != -1 && strcmp(port->place, w.place) == 0 &&
			   strcmp(port->state, w.state) == 0))
		return;
	if (place_take(net, port, &w, &r) == -1 || port_serve(net, port, &r) == -1) {
		port_say(port, &r);
		return;
	}
	snprintf(port->state, sizeof(port->state), "%s", w.state);
	port->said.why[0] = '\0';
}

void
port_end(struct net *net)
{
	net->drained = true;
	if (net->port == NULL)
		return;
	place_leave(net, net->port);
	free(net->port);
	net->port = NULL;
}

/* Who came first and says nothing makes room: an honest box speaks at once. */
static int
guest_room(struct net *net)
{
	return http_server_connections_of(net->server, SURFACE_GUEST) <
			   store_setting(net->env->db, "port.guests") ||
		       http_server_make_room(net->server, SURFACE_GUEST)
		   ? 0
		   : -1;
}

int
port_authorise(struct net *net, struct http_peer *peer)
{
	struct store *db = net->env->db;
	const struct tls_peer *tls = peer->tls;

	if (tls == NULL)
		return net->env->home->role == HOME_HOST ? guest_room(net) : -1;
	if ((net->env->home->role == HOME_HOST
		    ? tls_box_of(db, tls->cert.fp, &peer->tag)
		    : tls_pairing_of(db, tls->issuer_fp, tls->cert.uris.device, &peer->tag)) != 1)
		return -1;
	peer->surface = SURFACE_PEER;
	return 0;
}
