/* test_tls.c: TLS at both ends, met by curl, by openssl and by those who do not play along. */
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>
#include <sodium.h>

#include "engine/clock.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/http/tls_pump.h"
#include "tests/authority.h"
#include "tests/slower.h"

#define REQUIRED  1u
#define OPTIONAL  2u
#define PEER_MOST 3 /* connections of one peer that has a tag */
#define GUARD_MS  (60000 * SLOWER)
#define MIB       (1 << 20)
#define STREAM    (64 * MIB)

static struct loop *loop;
static struct http_server *server;
static struct http_client *client;
static struct authority ours, theirs;
static struct identity host, box;
static char dir[32], out[1 << 16];
static size_t out_len;
static int required, optional; /* ports */
static bool tagged;            /* peers under TLS are told apart */
static unsigned authorised, asked, closed, drained;
static size_t streamed;
static struct refusal r;

/* Handlers. */

static int
say_who(struct http_exchange *x, void *ctx)
{
	const struct http_peer *peer = http_peer(x);
	char text[512], fp[65] = "-", issuer[65] = "-";

	(void)ctx;
	asked++;
	if (peer->tls != NULL) {
		sodium_bin2hex(fp, sizeof(fp), peer->tls->cert.fp, CERT_FP_SIZE);
		sodium_bin2hex(issuer, sizeof(issuer), peer->tls->issuer_fp, CERT_FP_SIZE);
	}
	snprintf(text, sizeof(text), "%u|%s|%s|%s|%s|%d\n", http_surface(x),
	    peer->tls != NULL ? peer->tls->cert.uris.device : "-", fp, issuer, peer->address,
	    peer->uid == HTTP_NOBODY && peer->pid == 0);
	http_reply(x, 200, "text/plain", NULL, text, strlen(text));
	return 0;
}

static void
on_close(void *ctx)
{
	(void)ctx;
	closed++;
	loop_stop(loop);
}

static void
pour(void *ctx)
{
	static char piece[16384];

	while (streamed < STREAM) {
		if (http_stream_write(ctx, piece, sizeof(piece)) > 262144) {
			streamed += sizeof(piece);
			return;
		}
		streamed += sizeof(piece);
	}
	http_stream_end(ctx);
}

static int
stream(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	http_stream_on_drain(x, pour, x);
	if (http_stream_begin(x, 200, "application/octet-stream") == 0)
		pour(x);
	return 0;
}

static int
count_body(struct http_exchange *x, void *ctx)
{
	char text[32];
	size_t len;

	(void)ctx;
	http_body(x, &len);
	snprintf(text, sizeof(text), "%zu", len);
	http_reply(x, 200, "text/plain", NULL, text, strlen(text));
	return 0;
}

static int
hold(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	asked++;
	http_on_close(x, on_close, NULL);
	loop_stop(loop);
	return 0;
}

static void
reply_late(void *ctx)
{
	http_reply(ctx, 200, "text/plain", NULL, "late\n", 5);
}

static int
late(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_on_close(x, on_close, NULL);
	return loop_after(loop, 100, reply_late, x) == 0 ? -1 : 0;
}

static const struct http_route routes[] = {
    {"GET", "/who", REQUIRED | OPTIONAL, 0, say_who, ""},
    {"GET", "/stream", REQUIRED, 0, stream, ""},
    {"POST", "/count", REQUIRED, SIZE_MAX, count_body, ""},
    {"POST", "/small", REQUIRED, 1000, count_body, ""},
    {"GET", "/hold", REQUIRED, 0, hold, ""},
    {"GET", "/late", REQUIRED, 0, late, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

/* The world. */

static int
authorise(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	if (peer->tls != NULL && tagged)
		peer->tag = strcmp(peer->tls->cert.uris.device, "dev-1") == 0 ? 1 : 2;
	authorised++;
	return 0;
}

static struct tls_limits limits;

static int
listen_tls(unsigned surface, enum tls_ask ask, const struct identity *as)
{
	const struct tls_config config = {.cert = &as->cert,
	    .key = &as->key,
	    .issuer = &ours.cert,
	    .cas = &ours.cert,
	    .ncas = 1,
	    .ask = ask};
	int port, fd = tcp_listen(&port);

	assert_int_equal(http_listen_tls(server, fd, surface, &config, &limits, &r), 0);
	return port;
}

static void
hung(void *ctx)
{
	(void)ctx;
	fprintf(stderr, "the test hangs\n");
	abort();
}

static int
setup_with(int64_t handshake_ms, int64_t flush_ms, unsigned connections)
{
	struct http_server_config config = {.routes = routes, .authorise = authorise};

	authorised = asked = closed = drained = 0;
	tagged = false;
	streamed = 0;
	limits = (struct tls_limits){.connections = 1200,
	    .handshakes = 100,
	    .per_address = 1100,
	    .handshake_ms = handshake_ms,
	    .flush_ms = flush_ms,
	    .dead_ms = 30000};
	config.limits = (struct http_limits){.connections = connections,
	    .uid_connections = connections,
	    .peer_connections = PEER_MOST,
	    .body = 2 * STREAM,
	    .header_bytes = 8192,
	    .headers = 40,
	    .idle_ms = 10000 * SLOWER,
	    .request_ms = 30000 * SLOWER,
	    .stall_ms = 10000 * SLOWER,
	    .json_depth = 32,
	    .stream_bytes = 262144};
	strcpy(dir, "/tmp/bst-tls-XXXXXX");
	if (mkdtemp(dir) == NULL || (loop = loop_new()) == NULL)
		return -1;
	authority_make(&ours, "ours");
	authority_make(&theirs, "theirs");
	authority_server(&ours, &host, AUTHORITY_HOST, -AUTHORITY_DAY, AUTHORITY_DAY);
	authority_client(&ours, &box, "dev-1", -AUTHORITY_DAY, AUTHORITY_DAY);
	authority_save(&ours, dir, "ca");
	identity_save(&box, dir, "box");
	if ((server = http_server_new(loop, &config, &r)) == NULL ||
	    (client = http_client_new(loop, &r)) == NULL)
		return -1;
	required = listen_tls(REQUIRED, TLS_ASK_REQUIRED, &host);
	optional = listen_tls(OPTIONAL, TLS_ASK_OPTIONAL, &host);
	return loop_after(loop, GUARD_MS, hung, NULL) == 0;
}

static int
setup(void **state)
{
	(void)state;
	return setup_with(5000 * SLOWER, 5000 * SLOWER, 1200);
}

/* One place for this machine. */
static int
setup_narrow(void **state)
{
	(void)state;
	return setup_with(5000 * SLOWER, 5000 * SLOWER, 1);
}

static int
setup_hasty(void **state)
{
	(void)state;
	return setup_with(300, 300, 1200);
}

static int
teardown(void **state)
{
	char line[64];

	(void)state;
	http_client_free(client);
	http_server_free(server);
	loop_free(loop);
	identity_drop(&host);
	identity_drop(&box);
	authority_drop(&ours);
	authority_drop(&theirs);
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	return system(line);
}

static void
stop(void *ctx)
{
	(void)ctx;
	loop_stop(loop);
}

static void
run_for(int64_t ms)
{
	loop_after(loop, ms, stop, NULL);
	loop_run(loop);
}

static unsigned
open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Programs. */

static void
on_output(void *ctx, uint32_t events)
{
	int fd = *(int *)ctx;
	ssize_t n = read(fd, out + out_len, sizeof(out) - 1 - out_len);

	(void)events;
	if (n > 0) {
		out_len += (size_t)n;
		out[out_len] = '\0';
		return;
	}
	loop_del(loop, fd);
	loop_stop(loop);
}

/* Run ${format} as a shell command in the directory; its output is in out.  Return its code. */
static int __attribute__((format(printf, 1, 2))) shell(const char *format, ...)
{
	char line[2048];
	int fds[2], status, n;
	pid_t pid;
	va_list ap;

	n = snprintf(line, sizeof(line), "cd %s && ", dir);
	va_start(ap, format);
	vsnprintf(line + n, sizeof(line) - (size_t)n, format, ap);
	va_end(ap);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	out_len = 0;
	out[0] = '\0';
	assert_int_equal(loop_add(loop, fds[0], EPOLLIN, on_output, &fds[0]), 0);
	loop_run(loop);
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

#define CURL     "curl -sS --max-time 20 --noproxy '*' --cacert ca.crt "
#define WITH_BOX "--cert box.crt --key box.key --key-type DER "

static void
want(const char *part)
{
	if (strstr(out, part) == NULL)
		fail_msg("no \"%s\" in: %.2000s", part, out);
}

static void
want_not(const char *part)
{
	if (strstr(out, part) != NULL)
		fail_msg("\"%s\" in: %.2000s", part, out);
}

/* Who may come in. */

static void
certificate_reaches_the_handler(void **state)
{
	char fp[65], issuer[65], line[256];
	struct cert cert;

	(void)state;
	assert_int_equal(cert_read(box.cert.data, box.cert.len, &cert, &r), 0);
	sodium_bin2hex(fp, sizeof(fp), cert.fp, CERT_FP_SIZE);
	sodium_bin2hex(issuer, sizeof(issuer), ca_cert(ours.ca)->fp, CERT_FP_SIZE);
	snprintf(line, sizeof(line), "1|dev-1|%s|%s|127.0.0.1|1\n", fp, issuer);
	assert_int_equal(shell(CURL WITH_BOX "https://127.0.0.1:%d/who", required), 0);
	assert_string_equal(out, line);
	assert_int_equal(shell(CURL WITH_BOX "--resolve " AUTHORITY_HOST ":%d:127.0.0.1 -v"
					     " https://" AUTHORITY_HOST ":%d/who",
			     required, required),
	    0);
	want(line);
	want("TLSv1.3");
	want("ALPN: server accepted http/1.1");
	assert_int_equal(
	    shell(CURL WITH_BOX "-v --tls-max 1.2 https://127.0.0.1:%d/who", required), 0);
	want(line);
	want("TLSv1.2 / ECDHE-ECDSA-AES256-GCM-SHA384");
	assert_int_equal(shell(CURL "https://127.0.0.1:%d/who", optional), 0);
	assert_string_equal(out, "2|-|-|-|127.0.0.1|1\n");
	assert_int_equal(shell(CURL WITH_BOX "https://127.0.0.1:%d/who", optional), 0);
	want("2|dev-1|");
}

/* Without the right certificate not even the authorise hook hears of a client. */
static void
strangers_do_not_come_in(void **state)
{
	struct identity bad;
	size_t i;

	(void)state;
	assert_int_not_equal(shell(CURL "https://127.0.0.1:%d/who", required), 0);
	want("certificate required");
	for (i = 0; i < 5; i++) {
		switch (i) {
		case 0:
			authority_client(&theirs, &bad, "dev-1", -AUTHORITY_DAY, AUTHORITY_DAY);
			break;
		case 1:
			authority_client(&ours, &bad, "dev-1", -2 * AUTHORITY_DAY, -AUTHORITY_DAY);
			break;
		case 2:
			authority_client(&ours, &bad, "dev-1", AUTHORITY_DAY, 2 * AUTHORITY_DAY);
			break;
		case 3: /* a server is no client */
			authority_server(&ours, &bad, "x", -AUTHORITY_DAY, AUTHORITY_DAY);
			break;
		default: /* another's key */
			authority_client(&ours, &bad, "dev-2", -AUTHORITY_DAY, AUTHORITY_DAY);
			cert_blob_free(&bad.cert);
			bad.cert.data = malloc(box.cert.len);
			memcpy(bad.cert.data, box.cert.data, box.cert.len);
			bad.cert.len = box.cert.len;
		}
		identity_save(&bad, dir, "bad");
		identity_drop(&bad);
		assert_int_not_equal(shell(CURL "--cert bad.crt --key bad.key --key-type DER"
						" https://127.0.0.1:%d/who",
					 required),
		    0);
		assert_int_not_equal(shell(CURL "--cert bad.crt --key bad.key --key-type DER"
						" https://127.0.0.1:%d/who",
					 optional),
		    0);
	}
	assert_int_equal(authorised, 0);
	assert_int_equal(asked, 0);
}

/* A certificate that says two things is not believed, even of the right authority. */
static void
certificate_of_two_devices_is_refused(void **state)
{
	(void)state;
	assert_int_equal(shell("openssl pkcs8 -nocrypt -inform DER -in box.key -out k.pem 2>&1;"
			       "openssl req -new -key k.pem -subj /CN=x -out q.pem"),
	    0);
	{
		char path[64];
		FILE *f;

		snprintf(path, sizeof(path), "%s/ca.key", dir);
		assert_non_null(f = fopen(path, "we"));
		assert_int_equal(fwrite(ours.key.data, 1, ours.key.len, f), ours.key.len);
		fclose(f);
	}
	assert_int_equal(
	    shell("openssl pkcs8 -nocrypt -inform DER -in ca.key -out ca.pem && printf"
		  " 'basicConstraints=critical,CA:FALSE\\nextendedKeyUsage=clientAuth\\n"
		  "subjectKeyIdentifier=hash\\nauthorityKeyIdentifier=keyid\\n"
		  "subjectAltName=URI:urn:bastion:device:a,URI:urn:bastion:device:%%s\\n' $N >e;"
		  "for n in a b; do printf 'basicConstraints=critical,CA:FALSE\\n"
		  "extendedKeyUsage=clientAuth\\nkeyUsage=critical,digitalSignature\\n"
		  "subjectKeyIdentifier=hash\\nauthorityKeyIdentifier=keyid\\n"
		  "subjectAltName=URI:urn:bastion:device:a,URI:urn:bastion:device:%%s\\n' $n >e;"
		  "openssl x509 -req -in q.pem -CA ca.crt -CAkey ca.pem -days 1 -extfile e"
		  " -out two-$n.crt; done"),
	    0);
	assert_int_equal(
	    shell(CURL "--cert two-a.crt --key k.pem https://127.0.0.1:%d/who", required), 0);
	want("1|a|");
	authorised = 0;
	assert_int_not_equal(
	    shell(CURL "--cert two-b.crt --key k.pem https://127.0.0.1:%d/who", required), 0);
	assert_int_equal(authorised, 0);
}

/* Old protocols, weak ciphers, other application protocols, second handshakes. */
static void
nothing_old_is_spoken(void **state)
{
	(void)state;
#define S_CLIENT "echo | openssl s_client -connect 127.0.0.1:%d "
	assert_int_not_equal(shell(S_CLIENT "-tls1_1 -cipher ALL:@SECLEVEL=0", optional), 0);
	assert_int_not_equal(shell(S_CLIENT "-tls1 -cipher ALL:@SECLEVEL=0", optional), 0);
	assert_int_not_equal(shell(S_CLIENT "-tls1_2 -cipher AES128-SHA256", optional), 0);
	assert_int_not_equal(
	    shell(S_CLIENT "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256", optional), 0);
	assert_int_not_equal(shell(S_CLIENT "-groups ffdhe2048", optional), 0);
	assert_int_not_equal(shell(S_CLIENT "-alpn h2", optional), 0);
	want("no application protocol");
	assert_int_equal(shell(S_CLIENT "-alpn h2,http/1.1", optional), 0);
	want("ALPN protocol: http/1.1");
	assert_int_equal(shell(S_CLIENT, optional), 0);
	want("No ALPN negotiated");
	want("Compression: NONE");

	/* Whoever was let in once is looked at again. */
	assert_int_equal(shell(S_CLIENT "-tls1_2 -reconnect", optional), 0);
	want_not("Reused");
	want_not("TLS session ticket:");
	shell(
	    "(printf 'R\\n'; sleep 1) | openssl s_client -connect 127.0.0.1:%d -tls1_2", optional);
	want("no renegotiation");
}

/* Our client. */

struct outcome {
	struct refusal refusal;
	char body[256];
	int status;
	unsigned done, verified;
	char issuer[65];
};

static struct outcome got;

static int
on_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	(void)ctx;
	(void)call;
	snprintf(got.body, sizeof(got.body), "%.*s", (int)len, data);
	return 0;
}

static void
on_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	(void)ctx;
	got.done++;
	if (refusal != NULL)
		got.refusal = *refusal;
	got.status = http_call_status(call);
	loop_stop(loop);
}

/* PAIR-1: the authority itself is at hand to be kept. */
static int
on_verify(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	uint8_t fp[CERT_FP_SIZE];

	(void)ctx;
	(void)refusal;
	got.verified++;
	cert_fingerprint(peer->tls->issuer.data, peer->tls->issuer.len, fp);
	assert_memory_equal(fp, peer->tls->issuer_fp, sizeof(fp));
	sodium_bin2hex(got.issuer, sizeof(got.issuer), fp, sizeof(fp));
	return 0;
}

/* Ask ${port} for /who as ${config} says, meaning ${name}.  Return the code of a refusal, or "". */
static const char *
ask(int port, const char *name, const struct tls_config *config)
{
	struct http_request request = {.method = "GET",
	    .connect_ms = 500 * SLOWER,
	    .total_ms = 5000 * SLOWER,
	    .reply_max = 200,
	    .verify = on_verify,
	    .chunk = on_chunk,
	    .done = on_done};
	struct tls_end *end = tls_client_end(config, &r);
	char url[128], dial[32];

	assert_non_null(end);
	memset(&got, 0, sizeof(got));
	snprintf(url, sizeof(url), "https://%s:%d/who", name, port);
	snprintf(dial, sizeof(dial), "127.0.0.1:%d", port);
	request.url = url;
	request.dial = dial;
	request.tls = end;
	assert_non_null(http_start(client, &request, &r));
	while (got.done == 0)
		loop_run(loop);
	tls_end_free(end);
	return got.refusal.code;
}

/* PAIR-1, PAIR-2, RC-03, RC-05: the pinned authority, the right name, whatever address was dialled,
 * the right time; or not a byte is sent. */
static void
client_trusts_the_pinned_authority_alone(void **state)
{
	struct tls_config pin = {.pin = ca_cert(ours.ca)->fp};
	struct tls_config whole = {
	    .cas = &ours.cert, .ncas = 1, .cert = &box.cert, .key = &box.key};
	struct identity bad;
	char fp[65];
	int port;

	(void)state;
	sodium_bin2hex(fp, sizeof(fp), ca_cert(ours.ca)->fp, CERT_FP_SIZE);
	assert_string_equal(ask(optional, AUTHORITY_HOST, &pin), "");
	assert_string_equal(got.issuer, fp);
	assert_string_equal(got.body, "2|-|-|-|127.0.0.1|1\n");
	assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "");
	assert_non_null(strstr(got.body, "1|dev-1|"));
	asked = 0;

	pin.pin = ca_cert(theirs.ca)->fp;
	assert_string_equal(ask(optional, AUTHORITY_HOST, &pin), "tls.untrusted");
	whole.cas = &theirs.cert;
	assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "tls.untrusted");
	whole.cas = &ours.cert;
	assert_string_equal(ask(required, "other.bastion.internal", &whole), "tls.untrusted");
	assert_string_equal(ask(required, "bastion.internal", &whole), "tls.untrusted");

	authority_server(&ours, &bad, AUTHORITY_HOST, -2 * AUTHORITY_DAY, -AUTHORITY_DAY);
	port = listen_tls(OPTIONAL, TLS_ASK_OPTIONAL, &bad);
	assert_string_equal(ask(port, AUTHORITY_HOST, &whole), "tls.untrusted");
	identity_drop(&bad);
	authority_server(&ours, &bad, AUTHORITY_HOST, AUTHORITY_DAY, 2 * AUTHORITY_DAY);
	port = listen_tls(OPTIONAL, TLS_ASK_OPTIONAL, &bad);
	assert_string_equal(ask(port, AUTHORITY_HOST, &whole), "tls.untrusted");
	identity_drop(&bad);
	authority_server(&theirs, &bad, AUTHORITY_HOST, -AUTHORITY_DAY, AUTHORITY_DAY);
	port = listen_tls(OPTIONAL, TLS_ASK_OPTIONAL, &bad);
	pin.pin = ca_cert(ours.ca)->fp; /* is sent along, but is not the issuer */
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "tls.untrusted");
	identity_drop(&bad);
	authority_client(&ours, &bad, "dev-1", -AUTHORITY_DAY, AUTHORITY_DAY);
	port = listen_tls(OPTIONAL, TLS_ASK_OPTIONAL, &bad); /* a client is no server */
	assert_string_equal(ask(port, AUTHORITY_HOST, &whole), "tls.untrusted");
	identity_drop(&bad);
	assert_int_equal(asked, 0);
	assert_int_equal(got.verified, 0);
}

/* RC-06: an IPv6 address in brackets is one, and is vouched for as an address, not as a name. */
static void
an_address_is_vouched_for(void **state)
{
	struct tls_config whole = {.cas = &ours.cert, .ncas = 1};
	struct identity six;
	int port;

	(void)state;
	authority_server(&ours, &six, "::1", -AUTHORITY_DAY, AUTHORITY_DAY);
	port = listen_tls(OPTIONAL, TLS_ASK_OPTIONAL, &six);
	assert_string_equal(ask(port, "[::1]", &whole), "");
	assert_string_equal(ask(port, "127.0.0.1", &whole), "");
	assert_string_equal(ask(port, "[::2]", &whole), "tls.untrusted");
	assert_string_equal(ask(optional, "[::1]", &whole), "tls.untrusted");
	identity_drop(&six);
}

/* The clock of certificates is ours, for tests of other parts. */
static void
clock_is_the_injected_one(void **state)
{
	struct tls_config whole = {
	    .cas = &ours.cert, .ncas = 1, .cert = &box.cert, .key = &box.key};
	int64_t now = clock_now();

	(void)state;
	assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "");
	clock_fix(now + 2 * AUTHORITY_DAY);
	assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "tls.untrusted");
	clock_fix(-1);
}

/* RA-03, RB-05: nobody serves without a certificate and its key, or with what is neither. */
static void
impossible_ends_are_refused(void **state)
{
	struct tls_config config = {
	    .cert = &box.cert, .key = &host.key, .cas = &ours.cert, .ncas = 1};
	int port;

	(void)state;
	assert_null(tls_client_end(&config, &r));
	assert_string_equal(r.code, "tls.config");
	assert_null(tls_server_end(&config, &r));
	config = (struct tls_config){.cert = &box.cert, .key = &box.key};
	assert_null(tls_client_end(&config, &r));
	assert_int_equal(http_listen_tls(server, tcp_listen(&port), OPTIONAL,
			     &(struct tls_config){.key = &box.key}, &limits, &r),
	    -1);
	assert_string_equal(r.code, "tls.config");
	config.ask = TLS_ASK_OPTIONAL;
	assert_null(tls_server_end(&config, &r));
	config = (struct tls_config){.cas = &box.key, .ncas = 1};
	assert_null(tls_client_end(&config, &r));
	assert_string_equal(r.code, "cert.form");
	config = (struct tls_config){.cas = &ours.cert, .ncas = TLS_CAS_MAX + 1};
	assert_null(tls_client_end(&config, &r));
}

/* Other listeners. */

/* What a strange listener says, and then: close, or say nothing for ever. */
static int
strange_listener(const char *says, bool closes, pid_t *pid)
{
	int port, fd = tcp_listen(&port), c;

	if ((*pid = fork()) != 0) {
		close(fd);
		return port;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		c = accept(fd, NULL, NULL);
		(void)!send(c, says, strlen(says), MSG_NOSIGNAL);
		if (closes)
			close(c);
	}
}

static void
end_listener(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* PAIR-8, CL-01, RF-53: a port that does not speak, or not TLS, is given up in time and in words.
 */
static void
port_that_does_not_speak_is_given_up(void **state)
{
	struct tls_config pin = {.pin = ca_cert(ours.ca)->fp};
	int64_t began = loop_now();
	pid_t pid;
	int port;

	(void)state;
	port = strange_listener("", false, &pid);
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "http.timeout");
	assert_in_range(loop_now() - began, 450 * SLOWER, 3000 * SLOWER);
	end_listener(pid);
	port = strange_listener("", true, &pid);
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "tls.handshake");
	end_listener(pid);
	port = strange_listener("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, &pid);
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "tls.handshake");
	end_listener(pid);
	port = strange_listener("\x16\x03\x03\xff\xff", false, &pid);
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "tls.handshake");
	end_listener(pid);
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "http.unreachable");
}

/* Stock servers of OpenSSL's, and their answers: a page of s_server's is over 200 bytes. */
static void
too_much_of_an_answer_is_refused(void **state)
{
	struct tls_config pin = {.pin = ca_cert(ours.ca)->fp};
	int port, fd = tcp_listen(&port), i;
	pid_t pid;

	(void)state;
	close(fd);
	identity_save(&host, dir, "host");
	assert_int_equal(shell("openssl pkcs8 -nocrypt -inform DER -in host.key -out host.pem"), 0);
	if ((pid = fork()) == 0) {
		char at[16];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(at, sizeof(at), "%d", port);
		if (chdir(dir) == -1 || freopen("/dev/null", "w", stdout) == NULL ||
		    freopen("/dev/null", "w", stderr) == NULL)
			_exit(1);
		execlp("openssl", "openssl", "s_server", "-accept", at, "-cert", "host.crt", "-key",
		    "host.pem", "-CAfile", "ca.crt", "-chainCAfile", "ca.crt", "-www",
		    (char *)NULL);
		_exit(127);
	}
	for (i = 0; i < 100 && (fd = tcp_dial(port, 0)) == -1; i++)
		run_for(20);
	close(fd);
	assert_string_equal(ask(port, AUTHORITY_HOST, &pin), "http.too_large");
	assert_int_equal(got.verified, 1);
	end_listener(pid);
}

/* Clients that do not play along. */

/* A raw socket, on which nothing or half a ClientHello is sent, is closed in time. */
static void
handshake_has_its_time(void **state)
{
	int silent = tcp_dial(required, 0), half = tcp_dial(required, 0);
	int64_t began = loop_now();
	char byte;

	(void)state;
	assert_int_equal(send(half, "\x16\x03\x01\x02\x00\x01", 6, 0), 6);
	run_for(150);
	assert_int_equal(recv(silent, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(recv(half, &byte, 1, MSG_DONTWAIT), -1);
	while (recv(silent, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN)
		run_for(5);
	while (recv(half, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN)
		run_for(5);
	assert_in_range(loop_now() - began, 300, 2000 * SLOWER);
	close(silent);
	close(half);
	assert_int_equal(authorised, 0);
}

static void
garbage_is_no_handshake(void **state)
{
	int fd = tcp_dial(required, 0);
	char text[64];

	(void)state;
	assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
	run_for(100);
	assert_true(recv(fd, text, sizeof(text), MSG_DONTWAIT) >= 0 || errno == ECONNRESET);
	close(fd);
	assert_int_equal(authorised, 0);
}

static size_t
resident(void)
{
	size_t all, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_int_equal(fscanf(f, "%zu %zu", &all, &rss), 2);
	fclose(f);
	return rss * 4096;
}

/* A child that holds ${n} connections open, each from an address of its own or all from one. */
static pid_t
flood(int port, unsigned n, bool many, int *ready)
{
	int fds[2], fd;
	unsigned i;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	if ((pid = fork()) != 0) {
		close(fds[1]);
		*ready = fds[0];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < n; i++) {
		fd = tcp_dial(port, many ? 0x010000 + i : 0x020001);
		if (fd != -1 && i % 2 == 1)
			(void)!send(fd, "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL);
	}
	(void)!write(fds[1], "x", 1);
	pause();
	_exit(0);
}

/* A program with a request as the box, which is not answered. */
static pid_t
hold_one(const char *with)
{
	unsigned before = asked;
	char line[256];
	pid_t pid;

	snprintf(line, sizeof(line),
	    "cd %s && exec " CURL "%s https://127.0.0.1:%d/hold >/dev/null 2>&1", dir, with,
	    required);
	if ((pid = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	while (asked == before)
		loop_run(loop);
	return pid;
}

/* A certificate that is renewed is another listener: the one before goes with its last connection.
 */
static void
ended_listeners_go(void **state)
{
	unsigned before = http_server_listeners(server), i;
	struct tls_config whole = {
	    .cas = &ours.cert, .ncas = 1, .cert = &box.cert, .key = &box.key};
	pid_t pid = hold_one(WITH_BOX);

	(void)state;
	for (i = 0; i < 3; i++) {
		http_listen_end(server, REQUIRED);
		required = listen_tls(REQUIRED, TLS_ASK_REQUIRED, &host);
		assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "");
	}
	while (http_server_listeners(server) > before + 1)
		run_for(1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (http_server_listeners(server) > before)
		run_for(1);
	assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "");
}

/*
 * However many connections peers under TLS have, the places of this machine's users are their own;
 * and one peer has no more than its share of the port: another is heard.
 */
static void
peers_take_no_place_of_this_machine(void **state)
{
	struct identity second;
	char path[64];
	pid_t pids[PEER_MOST + 1];
	unsigned i;

	(void)state;
	tagged = true;
	authority_client(&ours, &second, "dev-2", -AUTHORITY_DAY, AUTHORITY_DAY);
	identity_save(&second, dir, "second");
	snprintf(path, sizeof(path), "%s/local.sock", dir);
	assert_int_equal(http_listen_unix(server, path, OPTIONAL, 0600, &r), 0);
	for (i = 0; i < PEER_MOST; i++)
		pids[i] = hold_one(WITH_BOX);
	assert_int_equal(shell(CURL "-i " WITH_BOX "https://127.0.0.1:%d/who", required), 0);
	want(" 503 ");
	want("http.busy");
	pids[i] = hold_one("--cert second.crt --key second.key --key-type DER ");
	assert_int_equal(shell("curl -sS --unix-socket local.sock http://x/who"), 0);
	want("|");
	for (i = 0; i <= PEER_MOST; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	while (closed <= PEER_MOST)
		loop_run(loop);
	assert_int_equal(shell(CURL WITH_BOX "https://127.0.0.1:%d/who", required), 0);
	want("dev-1");
	identity_drop(&second);
}

/* Issue 4: 10,000 slow connections; others are answered meanwhile, and memory stays bounded. */
static void
under_flood(bool many)
{
	struct tls_config whole = {
	    .cas = &ours.cert, .ncas = 1, .cert = &box.cert, .key = &box.key};
	size_t before = resident();
	unsigned files = open_files(), answers = 0;
	int64_t began = loop_now(), slowest = 0, at;
	int ready;
	char byte;
	pid_t pid;

	pid = flood(required, 10000, many, &ready);
	assert_int_equal(fcntl(ready, F_SETFL, O_NONBLOCK), 0);
	do {
		at = loop_now();
		assert_string_equal(ask(required, AUTHORITY_HOST, &whole), "");
		if (loop_now() - at > slowest)
			slowest = loop_now() - at;
		answers++;
		assert_true(open_files() <= files + limits.connections + 20);
	} while (read(ready, &byte, 1) != 1);
	print_message(
	    "10000 slow connections in %lld ms, %u answers meanwhile, the slowest %lld ms, "
	    "%lld KiB more\n",
	    (long long)(loop_now() - began), answers, (long long)slowest,
	    ((long long)resident() - (long long)before) / 1024);
	assert_true(slowest < 1000 * SLOWER);
	if (SLOWER == 1) /* sanitizers keep what was freed */
		assert_true(resident() < before + 64 * MIB);
	close(ready);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void
flood_from_one_address(void **state)
{
	(void)state;
	under_flood(false);
}

static void
flood_from_many_addresses(void **state)
{
	(void)state;
	under_flood(true);
}

/* A TLS client by hand, in blocking steps, while the loop runs in a thread of its own: no. */
static SSL *
hand_dial(int port, SSL_CTX **ctx, int *fd)
{
	const unsigned char *p = box.key.data;
	EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &p, (long)box.key.len);
	SSL *ssl;
	int n;

	*ctx = SSL_CTX_new(TLS_client_method());
	assert_int_equal(SSL_CTX_use_certificate_ASN1(*ctx, (int)box.cert.len, box.cert.data), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(*ctx, key), 1);
	EVP_PKEY_free(key);
	*fd = tcp_dial(port, 0);
	assert_int_equal(fcntl(*fd, F_SETFL, O_NONBLOCK), 0);
	ssl = SSL_new(*ctx);
	SSL_set_fd(ssl, *fd);
	while ((n = SSL_connect(ssl)) != 1) {
		assert_int_equal(SSL_get_error(ssl, n), SSL_ERROR_WANT_READ);
		run_for(0);
	}
	return ssl;
}

static void
hand_drop(SSL *ssl, SSL_CTX *ctx, int fd)
{
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
}

static void
hand_ask(SSL *ssl, const char *path)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

	assert_int_equal(SSL_write(ssl, text, n), n);
}

/* Read until ${part} has come; fail at the end. */
static void
hand_want(SSL *ssl, const char *part)
{
	int n;

	out_len = 0;
	out[0] = '\0';
	while (strstr(out, part) == NULL) {
		n = SSL_read(ssl, out + out_len, (int)(sizeof(out) - 1 - out_len));
		if (n > 0) {
			out_len += (size_t)n;
			out[out_len] = '\0';
			continue;
		}
		if (SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ)
			fail_msg("the end before \"%s\": %.500s", part, out);
		run_for(0);
	}
}

/* A client that says it sends no more still gets its answer (RFC 8446 §6.1). */
static void
half_closed_client_gets_its_answer(void **state)
{
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	ssl = hand_dial(required, &ctx, &fd);
	hand_ask(ssl, "/late");
	assert_int_equal(SSL_shutdown(ssl), 0);
	hand_want(ssl, "late\n");
	assert_int_equal(closed, 0);
	hand_drop(ssl, ctx, fd);
}

/* A client that goes is noticed at once, with and without good-bye, by FIN and by reset. */
static void
client_that_goes_is_noticed(void **state)
{
	const struct linger reset = {.l_onoff = 1};
	SSL_CTX *ctx;
	SSL *ssl;
	int fd, how;

	(void)state;
	for (how = 0; how < 3; how++) {
		ssl = hand_dial(required, &ctx, &fd);
		hand_ask(ssl, "/hold");
		while (asked == (unsigned)how)
			loop_run(loop);
		assert_int_equal(closed, how);
		if (how == 0)
			SSL_shutdown(ssl);
		if (how == 2)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		hand_drop(ssl, ctx, fd);
		while (closed == (unsigned)how)
			loop_run(loop);
	}
	run_for(20);
	assert_int_equal(http_server_connections(server), 0);
}

/* A reset in the middle of a long answer. */
static void
reset_ends_a_stream(void **state)
{
	const struct linger reset = {.l_onoff = 1};
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	ssl = hand_dial(required, &ctx, &fd);
	hand_ask(ssl, "/stream");
	hand_want(ssl, "200 OK");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	hand_drop(ssl, ctx, fd);
	while (closed == 0)
		loop_run(loop);
	assert_true(streamed < STREAM);
}

/* A client that does not read holds a fixed amount, and its producer waits. */
static void
slow_reader_stops_the_producer(void **state)
{
	size_t before;
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	ssl = hand_dial(required, &ctx, &fd);
	hand_ask(ssl, "/stream");
	run_for(300);
	before = streamed;
	assert_true(before > 0 && before < 16 * MIB);
	run_for(300);
	assert_int_equal(streamed, before);
	hand_drop(ssl, ctx, fd);
	while (closed == 0)
		loop_run(loop);
}

/* 64 MiB through curl, each way. */
static void
large_bodies_pass(void **state)
{
	(void)state;
	assert_int_equal(shell(CURL WITH_BOX "https://127.0.0.1:%d/stream | wc -c", required), 0);
	assert_string_equal(out, "67108864\n");
	assert_int_equal(shell("head -c 67108864 /dev/zero | " CURL WITH_BOX
			       "-T - -X POST https://127.0.0.1:%d/count",
			     required),
	    0);
	assert_string_equal(out, "67108864");
	assert_int_equal(shell("head -c 67108864 /dev/zero | " CURL WITH_BOX
			       "-T - -X POST -D - https://127.0.0.1:%d/small",
			     required),
	    0);
	want("413");
	want("http.too_large");
}

/* The answer is delivered whole before the server says that it is drained. */
static void
on_drained(void *ctx)
{
	(void)ctx;
	drained++;
}

/* In the middle of the answer, however long curl takes to begin. */
static void
drain_begins(void *ctx)
{
	if (streamed == 0)
		loop_after(loop, 10, drain_begins, ctx);
	else
		http_server_drain(server, on_drained, NULL);
}

static void
drain_waits_for_the_last_byte(void **state)
{
	(void)state;
	loop_after(loop, 10, drain_begins, NULL);
	assert_int_equal(
	    shell(CURL WITH_BOX "--limit-rate 40M https://127.0.0.1:%d/stream | wc -c", required),
	    0);
	assert_string_equal(out, "67108864\n");
	while (drained == 0)
		run_for(5);
	assert_int_equal(shell(CURL "https://127.0.0.1:%d/who", optional), 7);
}

/* Descriptors are given back, whatever became of a connection. */
static void
a_thousand_connections_leave_nothing(void **state)
{
	unsigned before, i;
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	(void)state;
	ssl = hand_dial(required, &ctx, &fd);
	hand_drop(ssl, ctx, fd);
	run_for(20);
	before = open_files();
	for (i = 0; i < 1000; i++) {
		if (i % 4 == 0) {
			fd = tcp_dial(required, 0);
			close(fd);
			continue;
		}
		ssl = hand_dial(required, &ctx, &fd);
		if (i % 4 == 1)
			hand_ask(ssl, "/hold");
		if (i % 4 == 2) {
			hand_ask(ssl, "/who");
			hand_want(ssl, "dev-1");
			SSL_shutdown(ssl);
		}
		hand_drop(ssl, ctx, fd);
	}
	while (http_server_connections(server) > 0)
		run_for(5);
	run_for(1200); /* the longest that a closed connection lingers */
	assert_int_equal(open_files(), before);
}

/* The pump alone: both ends of it, 64 MiB each way at once, and readers that rest. */

struct side {
	int fd;
	size_t sent, received;
	crypto_generichash_state sum;
	uint64_t seed, offset;
	bool resting, over, eof;
	struct tls_conn *conn;
};

static struct side sides[2];
static unsigned ends; /* connections that are gone, and sides that have read to the end */

static void side_moves(void *ctx, uint32_t events);

static void
side_wakes(void *ctx)
{
	struct side *s = ctx;

	s->resting = false;
	if (s->fd != -1)
		loop_mod(loop, s->fd, EPOLLIN | (s->sent < STREAM ? EPOLLOUT : 0));
}

/* The byte stream of a seed: eight bytes of a counter, so that a lost or doubled byte shows. */
static void
fill(struct side *s, uint64_t *piece, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		piece[i] = (s->sent / 8 + i) * 0x9e3779b97f4a7c15U + s->seed;
}

static void
side_moves(void *ctx, uint32_t events)
{
	struct side *s = ctx;
	uint64_t piece[1024];
	ssize_t n;

	if ((events & (EPOLLIN | EPOLLHUP)) != 0 && !s->resting) {
		n = recv(s->fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n == 0) {
			s->eof = true;
			loop_mod(loop, s->fd, s->sent < STREAM ? EPOLLOUT : 0);
		}
		if (n > 0) {
			crypto_generichash_update(&s->sum, (unsigned char *)piece, (size_t)n);
			s->received += (size_t)n;
			if (s->received % (4 * MIB) < (size_t)n) {
				s->resting = true;
				loop_mod(loop, s->fd, s->sent < STREAM ? EPOLLOUT : 0);
				loop_after(loop, 3, side_wakes, s);
			}
		}
	}
	if ((events & EPOLLOUT) != 0 && s->sent < STREAM) {
		fill(s, piece, sizeof(piece) / 8);
		n = send(s->fd, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			s->sent += (size_t)(n & ~7);
		assert_true(n == -1 || n % 8 == 0);
		if (s->sent == STREAM) {
			shutdown(s->fd, SHUT_WR);
			loop_mod(loop, s->fd, s->resting ? 0 : EPOLLIN);
		}
	}
	if (s->eof && s->sent == STREAM && s->fd != -1) {
		loop_del(loop, s->fd);
		close(s->fd);
		s->fd = -1;
		if (++ends == 4)
			loop_stop(loop);
	}
}

static int
side_ready(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer)
{
	struct side *s = ctx;

	s->conn = conn;
	s->fd = plain;
	tls_peer_free(peer);
	return loop_add(loop, plain, EPOLLIN | EPOLLOUT, side_moves, s);
}

static void
side_gone(void *ctx, const struct refusal *why)
{
	(void)ctx;
	if (why != NULL)
		fail_msg("%s: %s", why->code, why->why);
	if (++ends == 4)
		loop_stop(loop);
}

static void
pump_carries_both_ways_at_once(void **state)
{
	const struct tls_config mine = {.cert = &host.cert,
	    .key = &host.key,
	    .issuer = &ours.cert,
	    .cas = &ours.cert,
	    .ncas = 1,
	    .ask = TLS_ASK_REQUIRED};
	const struct tls_config yours = {
	    .cert = &box.cert, .key = &box.key, .pin = ca_cert(ours.ca)->fp};
	struct tls_end *a = tls_server_end(&mine, &r), *b = tls_client_end(&yours, &r);
	struct tls_pump *pump = tls_pump_new(loop, &limits, &r);
	struct tls_hooks hooks = {.ready = side_ready, .gone = side_gone};
	struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	uint8_t want_sum[32], sum[32];
	int port, fd = tcp_listen(&port), i;
	int64_t began = loop_now();
	crypto_generichash_state again;
	uint64_t piece[1024];
	struct side replay;
	size_t before = resident();

	(void)state;
	ends = 0;
	memset(sides, 0, sizeof(sides));
	for (i = 0; i < 2; i++) {
		sides[i].seed = (uint64_t)i + 7;
		crypto_generichash_init(&sides[i].sum, NULL, 0, 32);
	}
	hooks.ctx = &sides[0];
	assert_non_null(tls_connect(pump, b, tcp_dial(port, 0), AUTHORITY_HOST, &hooks, &r));
	hooks.ctx = &sides[1];
	assert_non_null(tls_accept(pump, a, accept(fd, NULL, NULL), &from, &hooks, &r));
	loop_run(loop);
	print_message("2 x 64 MiB in %lld ms, %lld KiB more\n", (long long)(loop_now() - began),
	    ((long long)resident() - (long long)before) / 1024);
	for (i = 0; i < 2; i++) {
		assert_int_equal(sides[i].received, STREAM);
		replay = (struct side){.seed = sides[1 - i].seed};
		crypto_generichash_init(&again, NULL, 0, 32);
		for (; replay.sent < STREAM; replay.sent += sizeof(piece)) {
			fill(&replay, piece, sizeof(piece) / 8);
			crypto_generichash_update(&again, (unsigned char *)piece, sizeof(piece));
		}
		crypto_generichash_final(&again, want_sum, 32);
		crypto_generichash_final(&sides[i].sum, sum, 32);
		assert_memory_equal(sum, want_sum, 32);
	}
	assert_int_equal(tls_pump_count(pump), 0);
	if (SLOWER == 1)
		assert_true(resident() < before + 8 * MIB);
	tls_pump_free(pump);
	tls_end_free(a);
	tls_end_free(b);
	close(fd);
}

/* Who has been shaking hands for longest gives way, and hears why. */

static struct refusal whys[8];
static unsigned nwhys;

static int
never_ready(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer)
{
	(void)ctx;
	(void)conn;
	(void)plain;
	(void)peer;
	fail_msg("a handshake that nobody made");
	return -1;
}

static void
note_why(void *ctx, const struct refusal *why)
{
	(void)ctx;
	whys[nwhys++] = *why;
}

static void
oldest_handshake_gives_way(void **state)
{
	const struct tls_config mine = {.cert = &host.cert, .key = &host.key};
	struct tls_end *end = tls_server_end(&mine, &r);
	struct tls_limits few = limits;
	struct tls_hooks hooks = {.ready = never_ready, .gone = note_why};
	struct sockaddr_storage from = {.ss_family = AF_INET};
	struct sockaddr_in *v4 = (struct sockaddr_in *)&from;
	struct tls_pump *pump;
	int port, fd = tcp_listen(&port), fds[4];
	unsigned i;
	char byte;

	(void)state;
	nwhys = 0;
	few.handshakes = 2;
	few.per_address = 2;
	assert_non_null(pump = tls_pump_new(loop, &few, &r));
	for (i = 0; i < 3; i++) {
		v4->sin_addr.s_addr = htonl(0x0a000001 + i);
		fds[i] = tcp_dial(port, 0);
		assert_non_null(tls_accept(pump, end, accept(fd, NULL, NULL), &from, &hooks, &r));
	}
	assert_int_equal(nwhys, 1);
	assert_string_equal(whys[0].code, "http.busy");
	assert_int_equal(recv(fds[0], &byte, 1, 0), 0);
	assert_int_equal(tls_pump_count(pump), 2);

	/* One address has its share, however it is written. */
	fds[3] = tcp_dial(port, 0);
	assert_non_null(tls_accept(pump, end, accept(fd, NULL, NULL), &from, &hooks, &r));
	assert_int_equal(nwhys, 2);
	close(fds[3]);
	fds[3] = tcp_dial(port, 0);
	assert_null(tls_accept(pump, end, accept(fd, NULL, NULL), &from, &hooks, &r));
	assert_string_equal(r.code, "http.busy");
	tls_pump_close(pump);
	assert_int_equal(tls_pump_count(pump), 0);
	assert_null(tls_accept(pump, end, tcp_dial(port, 0), &from, &hooks, &r));
	tls_pump_free(pump);
	tls_end_free(end);
	for (i = 0; i < 4; i++)
		close(fds[i]);
	close(fd);
}

/* What is left of an answer is not kept for ever for who does not read. */

struct pouring {
	struct tls_pump *pump;
	struct tls_end *end;
	int fd;
};

static int
pour_and_close(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer)
{
	static const char piece[8192];

	(void)ctx;
	(void)conn;
	tls_peer_free(peer);
	while (send(plain, piece, sizeof(piece), MSG_DONTWAIT) > 0)
		continue;
	close(plain);
	return 0;
}

static void
accept_pouring(void *ctx, uint32_t events)
{
	const struct tls_hooks hooks = {.ready = pour_and_close, .gone = note_why};
	const struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	struct pouring *p = ctx;
	int room = 4096, fd = accept(p->fd, NULL, NULL);

	(void)events;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	assert_non_null(tls_accept(p->pump, p->end, fd, &from, &hooks, &r));
}

static void
unread_rest_is_dropped_in_time(void **state)
{
	const struct tls_config mine = {.cert = &host.cert, .key = &host.key};
	struct pouring p = {.end = tls_server_end(&mine, &r)};
	int port, fd, room = 4096;
	int64_t began;
	SSL_CTX *ctx;
	SSL *ssl;

	(void)state;
	nwhys = 0;
	assert_non_null(p.pump = tls_pump_new(loop, &limits, &r));
	p.fd = tcp_listen(&port);
	setsockopt(p.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	assert_int_equal(loop_add(loop, p.fd, EPOLLIN, accept_pouring, &p), 0);
	ssl = hand_dial(port, &ctx, &fd);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	began = loop_now();
	while (nwhys == 0)
		run_for(5);
	assert_string_equal(whys[0].code, "http.timeout");
	assert_in_range(loop_now() - began, 250, 2000 * SLOWER);
	assert_int_equal(tls_pump_count(p.pump), 0);
	hand_drop(ssl, ctx, fd);
	loop_del(loop, p.fd);
	close(p.fd);
	tls_pump_free(p.pump);
	tls_end_free(p.end);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test)     cmocka_unit_test_setup_teardown(test, setup, teardown)
#define HASTY(test) cmocka_unit_test_setup_teardown(test, setup_hasty, teardown)
	    T(certificate_reaches_the_handler),
	    T(strangers_do_not_come_in),
	    T(certificate_of_two_devices_is_refused),
	    T(nothing_old_is_spoken),
	    T(client_trusts_the_pinned_authority_alone),
	    T(an_address_is_vouched_for),
	    T(clock_is_the_injected_one),
	    T(impossible_ends_are_refused),
	    T(port_that_does_not_speak_is_given_up),
	    T(too_much_of_an_answer_is_refused),
	    HASTY(handshake_has_its_time),
	    T(garbage_is_no_handshake),
	    T(flood_from_one_address),
	    T(flood_from_many_addresses),
	    T(half_closed_client_gets_its_answer),
	    T(client_that_goes_is_noticed),
	    T(reset_ends_a_stream),
	    T(slow_reader_stops_the_producer),
	    T(large_bodies_pass),
	    T(drain_waits_for_the_last_byte),
	    HASTY(unread_rest_is_dropped_in_time),
	    T(a_thousand_connections_leave_nothing),
	    T(ended_listeners_go),
	    cmocka_unit_test_setup_teardown(
		peers_take_no_place_of_this_machine, setup_narrow, teardown),
	    T(pump_carries_both_ways_at_once),
	    T(oldest_handshake_gives_way),
	};

	setlinebuf(stdout);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
