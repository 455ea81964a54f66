/* bench_tls.c: our TLS server beside nginx, met by the same client in the same run. */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "engine/crypto/openssl.h"
#include "net/http/server.h"
#include "net/http/tls_pump.h"
#include "tests/authority.h"

#define HANDSHAKES    300
#define ROUNDS        3
#define FILE_SIZE     (128 << 20)
#define SLOWER_SHAKES 1.5 /* times as long as nginx, at most */
#define SLOWER_BYTES  2.0 /* libmicrohttpd gives 16 KiB at a time */

static struct authority a;
static struct identity host;
static char dir[] = "/tmp/bst-bench-XXXXXX";
static const struct openssl_ssl *tls;
static SSL_CTX *ctx;
static int sock;

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Our server. */

static size_t poured;

static int
say_ok(struct http_exchange *x, void *unused)
{
	(void)unused;
	http_reply(x, 200, "text/plain", NULL, "ok\n", 3);
	return 0;
}

static void
gone(void *unused)
{
	(void)unused;
}

static void
pour(void *x)
{
	static char piece[65536];

	while (poured < FILE_SIZE) {
		poured += sizeof(piece);
		if (http_stream_write(x, piece, sizeof(piece)) > 262144)
			return;
	}
	http_stream_end(x);
}

static int
say_much(struct http_exchange *x, void *unused)
{
	(void)unused;
	poured = 0;
	http_on_close(x, gone, NULL);
	http_stream_on_drain(x, pour, x);
	if (http_stream_begin(x, 200, "application/octet-stream") == 0)
		pour(x);
	return 0;
}

static const struct http_route routes[] = {
    {"GET", "/ok", 1, 0, say_ok, ""},
    {"GET", "/big", 1, 0, say_much, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

static int
authorise(void *unused, struct http_peer *peer)
{
	(void)unused;
	(void)peer;
	return 0;
}

static void
serve(int fd)
{
	const struct tls_config config = {.cert = &host.cert, .key = &host.key, .issuer = &a.cert};
	const struct tls_limits limits = {.connections = 1000,
	    .handshakes = 1000,
	    .per_address = 1000,
	    .handshake_ms = 5000,
	    .flush_ms = 5000,
	    .dead_ms = 30000};
	struct http_server_config http = {.routes = routes, .authorise = authorise};
	struct loop *loop = loop_new();
	struct http_server *server;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	http.limits = (struct http_limits){.connections = 1000,
	    .uid_connections = 1000,
	    .body = 1024,
	    .header_bytes = 8192,
	    .headers = 40,
	    .idle_ms = 60000,
	    .request_ms = 60000,
	    .stall_ms = 60000,
	    .json_depth = 8,
	    .stream_bytes = 262144};
	if ((server = http_server_new(loop, &http, NULL)) == NULL ||
	    http_listen_tls(server, fd, 1, &config, &limits, NULL) == -1)
		_exit(1);
	loop_run(loop);
	_exit(0);
}

/* The peer. */

static pid_t
start_nginx(int port)
{
	char path[64];
	pid_t pid;
	FILE *f;

	snprintf(path, sizeof(path), "%s/conf", dir);
	assert_non_null(f = fopen(path, "we"));
	fprintf(f,
	    "daemon off; master_process off; pid %s/pid; error_log /dev/null;\n"
	    "events { worker_connections 1024; }\n"
	    "http { access_log off; sendfile on; server { listen 127.0.0.1:%d ssl;\n"
	    "ssl_certificate %s/chain.pem; ssl_certificate_key %s/host.pem;\n"
	    "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off; ssl_session_cache off;\n"
	    "ssl_ecdh_curve X25519:P-256; root %s;\n"
	    "location = /ok { return 200 'ok\\n'; } } }\n",
	    dir, port, dir, dir, dir);
	fclose(f);
	if ((pid = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (freopen("/dev/null", "w", stderr) != NULL)
			execlp("nginx", "nginx", "-c", path, "-e", "/dev/null", (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* The client. */

static SSL *
dial(int port)
{
	SSL *ssl;

	assert_int_not_equal(sock = tcp_dial(port, 0), -1);
	assert_non_null(ssl = tls->SSL_new(ctx));
	tls->SSL_set_fd(ssl, sock);
	assert_int_equal(tls->SSL_connect(ssl), 1);
	return ssl;
}

static void
hang_up(SSL *ssl)
{
	tls->SSL_shutdown(ssl);
	tls->SSL_free(ssl);
	close(sock);
}

static size_t
get(int port, const char *path)
{
	static char piece[65536];
	SSL *ssl = dial(port);
	size_t all = 0;
	int n;

	n = snprintf(
	    piece, sizeof(piece), "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	assert_int_equal(tls->SSL_write(ssl, piece, n), n);
	while ((n = tls->SSL_read(ssl, piece, sizeof(piece))) > 0)
		all += (size_t)n;
	hang_up(ssl);
	return all;
}

/* Handshakes and one small answer each, a second. */
static double
handshakes(int port)
{
	double began = now();
	int i;

	for (i = 0; i < HANDSHAKES; i++)
		assert_true(get(port, "/ok") > 0);
	return HANDSHAKES / (now() - began);
}

/* MB/s of one long answer. */
static double
rate(int port)
{
	double began = now();

	assert_true(get(port, "/big") >= FILE_SIZE);
	return FILE_SIZE / 1e6 / (now() - began);
}

static double
best(double (*measure)(int), int port)
{
	double most = 0, once;
	int i;

	for (i = 0; i < ROUNDS; i++)
		if ((once = measure(port)) > most)
			most = once;
	return most;
}

static void
prepare(void)
{
	char line[512];

	assert_non_null(mkdtemp(dir));
	authority_make(&a, "bench");
	authority_server(&a, &host, AUTHORITY_HOST, 0, AUTHORITY_DAY);
	identity_save(&host, dir, "host");
	authority_save(&a, dir, "ca");
	snprintf(line, sizeof(line),
	    "cd %s && cat host.crt ca.crt >chain.pem && "
	    "openssl pkcs8 -nocrypt -inform DER -in host.key -out host.pem && "
	    "truncate -s %d big && chmod 755 .",
	    dir, FILE_SIZE);
	assert_int_equal(system(line), 0);
	assert_non_null(tls = openssl_ssl(NULL));
	ctx = tls->SSL_CTX_new(tls->TLS_client_method());
}

static void
row(const char *what, double ours, double peer, double target, bool *missed)
{
	printf("%s | %.0f | %.0f | %.2f | < %.1f\n", what, ours, peer, peer / ours, target);
	*missed |= peer / ours >= target;
}

static void
measure(void **state)
{
	int ours, theirs, fd, i;
	bool missed = false;
	pid_t server, nginx;
	char line[64];

	(void)state;
	prepare();
	fd = tcp_listen(&ours);
	if ((server = fork()) == 0)
		serve(fd);
	close(fd);
	close(tcp_listen(&theirs));
	nginx = start_nginx(theirs);
	for (i = 0; i < 200 && (fd = tcp_dial(theirs, 0)) == -1; i++)
		usleep(20000);
	close(fd);
	row("TLS: full handshakes with one answer (1/s)", best(handshakes, ours),
	    best(handshakes, theirs), SLOWER_SHAKES, &missed);
	row("TLS: one long answer (MB/s)", best(rate, ours), best(rate, theirs), SLOWER_BYTES,
	    &missed);
	kill(server, SIGKILL);
	kill(nginx, SIGKILL);
	waitpid(server, NULL, 0);
	waitpid(nginx, NULL, 0);
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	assert_int_equal(system(line), 0);
	assert_false(missed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
