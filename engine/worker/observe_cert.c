/*
 * observe_cert.c: the certificate that a local TLS listener presents.
 *
 * The handshake accepts old protocols and weak keys, since the point is to look at them; the
 * verdict on the chain is that of the system's trust store at OpenSSL's usual level.
 */
#include <arpa/inet.h>
#include <sys/socket.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/openssl.h"
#include "engine/worker/answer.h"
#include "engine/worker/listener.h"
#include "engine/worker/observe.h"
#include "engine/worker/tool.h"

#define NAME_MAX_LEN 253
#define LABEL_MAX    63
#define NAMES_MAX    100
#define TEXT_MAX     1024
#define VERIFY_LEVEL 2

static const char *const NAME_TABLE = "CREATE TABLE name (kind TEXT, name TEXT)";
static const char *const NAME_ADD = "INSERT INTO name VALUES (?1, ?2)";
static const char *const RESULT =
    "SELECT json_object('port', ?1, 'server_name', ?2, 'address', ?3, 'protocol', ?4,"
    " 'subject', ?5, 'issuer', ?6,"
    " 'names', (SELECT json_group_array(json_object('kind', kind, 'name', name)) FROM name),"
    " 'not_before', ?7, 'not_after', ?8, 'days_left', ?9,"
    " 'verify', json_object('ok', json(iif(?10, 'true', 'false')), 'reason', ?11,"
    "   'name_checked', json(iif(?2 IS NULL, 'false', 'true'))))";

static const struct openssl_crypto *crypto;
static const struct openssl_ssl *tls;

/* A question while it is answered. */
struct look {
	struct answer *out;
	const char *name; /* server name, or NULL */
	struct listener listener;
	int64_t deadline;
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
	struct refusal why;
};

static int
is_server_name(const char *name)
{
	size_t i, label = 0;

	for (i = 0; name[i] != '\0'; i++) {
		if (name[i] == '.') {
			if (label == 0 || name[i - 1] == '-')
				return 0;
			label = 0;
			continue;
		}
		if (!isascii((unsigned char)name[i]) ||
		    (!isalnum((unsigned char)name[i]) && (name[i] != '-' || label == 0)) ||
		    ++label > LABEL_MAX)
			return 0;
	}
	return i <= NAME_MAX_LEN && label > 0 && name[i - 1] != '-';
}

static int
check(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	int64_t port;
	size_t i;

	if (observe_number(args[0], 1, 65535, "observe.port", "the port", &port, refusal) == -1)
		return -1;
	snprintf(canon->v[0], sizeof(canon->v[0]), "%lld", (long long)port);
	canon->n = nargs;
	if (nargs == 1)
		return 0;
	if (!is_server_name(args[1]))
		return refusal_set(refusal, "observe.name",
		    "a server name is labels of letters, digits and inner hyphens and dots between, "
		    "at most %d characters",
		    NAME_MAX_LEN);
	for (i = 0; args[1][i] != '\0'; i++)
		canon->v[1][i] = (char)tolower((unsigned char)args[1][i]);
	return 0;
}

static int
take_listener(void *ctx, const char *line, size_t len)
{
	struct look *k = ctx;

	listener_line(&k->listener, line, len);
	return 0;
}

static int
wait_for(struct look *k, short events)
{
	struct pollfd p = {.fd = k->fd, .events = events};
	int64_t left;
	int n;

	do {
		if ((left = k->deadline - tool_now_ms()) <= 0)
			return -1;
		n = poll(&p, 1, (int)left);
	} while (n == -1 && errno == EINTR);
	return n == 1 ? 0 : -1;
}

/* After connect: a connection to an own address comes from that very address. */
static int
stays_here(int fd, const struct listener_dial *d)
{
	struct listener_dial here;
	socklen_t len = sizeof(here.to);

	if (getsockname(fd, &here.to.any, &len) == -1)
		return 0;
	if (d->to.any.sa_family == AF_INET)
		return here.to.v4.sin_addr.s_addr == d->to.v4.sin_addr.s_addr;
	return memcmp(&here.to.v6.sin6_addr, &d->to.v6.sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* Connect from the address to itself: then no other machine can be at the other end. */
static int
dial(struct look *k, const struct listener_dial *d)
{
	struct listener_dial from = *d;
	int error = 0;
	socklen_t len = sizeof(error);

	if (from.to.any.sa_family == AF_INET)
		from.to.v4.sin_port = 0;
	else
		from.to.v6.sin6_port = 0;
	k->fd = socket(d->to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k->fd == -1 || bind(k->fd, &from.to.any, from.len) == -1)
		return -1;
	if (connect(k->fd, &d->to.any, d->len) == 0)
		return stays_here(k->fd, d) ? 0 : -1;
	if (errno != EINPROGRESS || wait_for(k, POLLOUT) == -1 ||
	    getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &error, &len) == -1 || error != 0)
		return -1;
	return stays_here(k->fd, d) ? 0 : -1;
}

static SSL_CTX *
make_context(const struct observe_env *env)
{
	SSL_CTX *ctx;

	if ((ctx = tls->SSL_CTX_new(tls->TLS_client_method())) == NULL)
		return NULL;
	tls->SSL_CTX_set_security_level(ctx, 0);
	tls->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_VERSION, NULL);
	tls->SSL_CTX_set_cipher_list(ctx, "ALL:COMPLEMENTOFALL:@SECLEVEL=0");
	tls->SSL_CTX_set_options(ctx, SSL_OP_LEGACY_SERVER_CONNECT);
	/* The verdict is asked for afterwards; a bad chain must not end the handshake. */
	tls->SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
	crypto->X509_VERIFY_PARAM_set_auth_level(tls->SSL_CTX_get0_param(ctx), VERIFY_LEVEL);
	if (env->trust[0] != '\0' ? tls->SSL_CTX_load_verify_locations(ctx, env->trust, NULL) != 1
				  : tls->SSL_CTX_set_default_verify_paths(ctx) != 1) {
		tls->SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

/* OpenSSL's macro for this casts the const away as well. */
static long
set_host_name(struct look *k)
{
	union {
		const char *in;
		void *out;
	} name = {.in = k->name};

	return tls->SSL_ctrl(
	    k->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.out);
}

static int
set_name(struct look *k)
{
	X509_VERIFY_PARAM *param = tls->SSL_get0_param(k->ssl);
	struct in_addr address;

	if (k->name == NULL)
		return 0;
	if (inet_pton(AF_INET, k->name, &address) == 1)
		return crypto->X509_VERIFY_PARAM_set1_ip_asc(param, k->name) == 1 ? 0 : -1;
	return set_host_name(k) == 1 && crypto->X509_VERIFY_PARAM_set1_host(param, k->name, 0) == 1
		   ? 0
		   : -1;
}

/* Shake hands on the connected socket, within the time. */
static int
shake(struct look *k)
{
	int rc;

	if ((k->ssl = tls->SSL_new(k->ctx)) == NULL || set_name(k) == -1 ||
	    tls->SSL_set_fd(k->ssl, k->fd) != 1)
		return -1;
	while ((rc = tls->SSL_connect(k->ssl)) != 1) {
		switch (tls->SSL_get_error(k->ssl, rc)) {
		case SSL_ERROR_WANT_READ:
			rc = wait_for(k, POLLIN);
			break;
		case SSL_ERROR_WANT_WRITE:
			rc = wait_for(k, POLLOUT);
			break;
		default:
			rc = -1;
		}
		if (rc == -1)
			return -1;
	}
	return 0;
}

static void
name_text(const X509_NAME *name, char *out, size_t len)
{
	BIO *bio;
	int n = 0;

	if ((bio = crypto->BIO_new(crypto->BIO_s_mem())) != NULL) {
		crypto->X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
		n = crypto->BIO_read(bio, out, (int)len - 1);
		crypto->BIO_free(bio);
	}
	out[n > 0 ? n : 0] = '\0';
}

static void
time_text(const ASN1_TIME *at, char *out, size_t len)
{
	struct tm tm;

	out[0] = '\0';
	if (crypto->ASN1_TIME_to_tm(at, &tm) == 1)
		strftime(out, len, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void
add_name(struct look *k, const GENERAL_NAME *name)
{
	char text[TEXT_MAX];
	const ASN1_STRING *s;
	int len;

	if (name->type == GEN_DNS) {
		s = name->d.dNSName;
		len = crypto->ASN1_STRING_length(s) < TEXT_MAX ? crypto->ASN1_STRING_length(s)
							       : TEXT_MAX - 1;
		memcpy(text, crypto->ASN1_STRING_get0_data(s), (size_t)len);
		text[len] = '\0';
		/* A NUL within a name cuts what some programs see of it. */
		if (strlen(text) != (size_t)len)
			snprintf(text, sizeof(text), "(a name with a NUL in it)");
		answer_rows(k->out, NAME_ADD, "tt", "dns", text);
	} else if (name->type == GEN_IPADD) {
		s = name->d.iPAddress;
		if ((crypto->ASN1_STRING_length(s) == 4 || crypto->ASN1_STRING_length(s) == 16) &&
		    inet_ntop(crypto->ASN1_STRING_length(s) == 4 ? AF_INET : AF_INET6,
			crypto->ASN1_STRING_get0_data(s), text, sizeof(text)) != NULL)
			answer_rows(k->out, NAME_ADD, "tt", "ip", text);
	}
}

static void
add_names(struct look *k, const X509 *cert)
{
	GENERAL_NAMES *names;
	int i;

	if ((names = crypto->X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL)) == NULL)
		return;
	for (i = 0; i < crypto->OPENSSL_sk_num((const OPENSSL_STACK *)names) && i < NAMES_MAX; i++)
		add_name(k, crypto->OPENSSL_sk_value((const OPENSSL_STACK *)names, i));
	crypto->GENERAL_NAMES_free(names);
}

static int
send_cert(struct look *k, const struct listener_dial *d, const X509 *cert)
{
	char subject[TEXT_MAX], issuer[TEXT_MAX], from[32], until[32], address[INET6_ADDRSTRLEN];
	long verdict = tls->SSL_get_verify_result(k->ssl);
	int days = 0, seconds = 0;

	if (answer_rows(k->out, NAME_TABLE, "") == -1)
		return OBSERVE_FAILED;
	add_names(k, cert);
	name_text(crypto->X509_get_subject_name(cert), subject, sizeof(subject));
	name_text(crypto->X509_get_issuer_name(cert), issuer, sizeof(issuer));
	time_text(crypto->X509_get0_notBefore(cert), from, sizeof(from));
	time_text(crypto->X509_get0_notAfter(cert), until, sizeof(until));
	crypto->ASN1_TIME_diff(&days, &seconds, NULL, crypto->X509_get0_notAfter(cert));
	/* Whole days that are left: what ran out an hour ago has -1. */
	if (seconds < 0)
		days--;
	inet_ntop(d->to.any.sa_family,
	    d->to.any.sa_family == AF_INET ? (const void *)&d->to.v4.sin_addr
					   : (const void *)&d->to.v6.sin6_addr,
	    address, sizeof(address));
	return answer_result(k->out, RESULT, "itttttttiit", (int64_t)k->listener.port, k->name,
		   address, tls->SSL_get_version(k->ssl), subject, issuer, from, until,
		   (int64_t)days, (int64_t)(verdict == X509_V_OK),
		   crypto->X509_verify_cert_error_string(verdict)) == 0
		   ? OBSERVE_DONE
		   : OBSERVE_FAILED;
}

/* Ask one address.  Return an exit code, or -1 to try the next. */
static int
ask(struct look *k, const struct listener_dial *d)
{
	X509 *cert;
	int rc = -1;

	k->ssl = NULL;
	if (dial(k, d) == -1)
		refusal_set(&k->why, "observe.handshake", "nothing took the connection in time");
	else if (shake(k) == -1)
		refusal_set(&k->why, "observe.handshake",
		    "what listens there did not complete a TLS handshake");
	else if ((cert = tls->SSL_get1_peer_certificate(k->ssl)) == NULL)
		refusal_set(&k->why, "observe.handshake", "the listener presented no certificate");
	else {
		rc = send_cert(k, d, cert);
		crypto->X509_free(cert);
	}
	tls->SSL_free(k->ssl);
	if (k->fd != -1)
		close(k->fd);
	k->fd = -1;
	crypto->ERR_clear_error();
	return rc;
}

static int
ask_each(struct look *k, const struct observe_limits *limits, const struct observe_env *env)
{
	int i, rc = -1;

	if (k->listener.found == 0) {
		refusal_set(&k->why, "observe.port_closed", "nothing listens on this port");
		return answer_refused(k->out, &k->why, OBSERVE_WRONG);
	}
	if (k->listener.ndials == 0) {
		refusal_set(&k->why, "observe.port_closed",
		    "what listens there is bound to an address that this machine does not hold");
		return answer_refused(k->out, &k->why, OBSERVE_WRONG);
	}
	if ((crypto = openssl_crypto(&k->why)) == NULL || (tls = openssl_ssl(&k->why)) == NULL)
		return answer_refused(k->out, &k->why, OBSERVE_MISSING);
	if ((k->ctx = make_context(env)) == NULL) {
		refusal_set(&k->why, "observe.tool", "the trust store cannot be read");
		return answer_refused(k->out, &k->why, OBSERVE_MISSING);
	}
	listener_sort(&k->listener);
	k->deadline = tool_now_ms() + limits->cert_ms;
	for (i = 0; i < k->listener.ndials && rc == -1; i++)
		rc = ask(k, &k->listener.dials[i]);
	tls->SSL_CTX_free(k->ctx);
	return rc == -1 ? answer_refused(k->out, &k->why, OBSERVE_FAILED) : rc;
}

static int
run(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	struct look look = {.out = out, .fd = -1, .name = args->n == 2 ? args->v[1] : NULL};
	struct tool_lines lines = {.line = take_listener, .ctx = &look};
	const struct tool_fill nothing = {.unit = NULL};
	char why[REFUSAL_WHY_MAX];

	look.listener.port = (uint16_t)strtoul(args->v[0], NULL, 10);
	if (tool_run(TOOL_LISTENERS, env, &nothing, limits->tool_ms, tool_lines_sink, &lines, why,
		sizeof(why)) == -1) {
		refusal_set(&look.why, "observe.tool", "%s", why);
		return answer_refused(out, &look.why, OBSERVE_MISSING);
	}
	tool_lines_end(&lines);
	return ask_each(&look, limits, env);
}

const struct observe_op observe_cert = {
    .name = "observe:cert",
    .usage = "PORT [SERVER NAME]",
    .summary = "the certificate that a local TLS listener presents",
    .args_min = 1,
    .args_max = 2,
    .check = check,
    .run = run,
};
