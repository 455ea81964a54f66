/* fleet.c: hundreds of boxes in one process: the server, the lines and the requests are ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/checkpoint.h"
#include "engine/state/invitation.h"
#include "engine/state/tls_identity.h"
#include "net/host/enroll_client.h"
#include "net/host/sign.h"
#include "net/http/client.h"
#include "net/http/reverse.h"
#include "net/http/tls.h"
#include "tests/fleet.h"
#include "tests/wire.h"

#define LANE    1u
#define WAIT_MS 60000
#define PACE_MS 10 /* between two boxes that come back */

/* One box. */
struct sim {
	char name[16];
	struct key *key;
	unsigned char identity[KEY_PUBLIC_SIZE];
	struct cert_blob cert, secret; /* for TLS, as its Host issued it */
	struct tls_end *end;
	struct reverse *reverse;
	struct http_call *beat;
	unsigned up;
};

static struct sim sims[FLEET_MAX];
static int nsims;
static struct cert_blob authority; /* of the Host */
static unsigned char host_key[32];
static char address[32];

/* In the process of the boxes. */
static struct fleet_counts *counts;
static struct loop *loop;
static struct http_server *server;
static struct http_client *client;
static int64_t every_ms;
static pid_t boxes_pid;

/*
 * The Host, and its boxes' first day.
 */

void
fleet_host(struct driver *d, int boxes)
{
	static const char *const names[] = {"http.connections", "http.per_uid", "call.live",
	    "port.connections", "port.per_address", "port.handshakes"};
	static struct said said;
	char value[16];
	struct rlimit files;
	size_t i;

	/* An ask is two connections of this machine: of whoever makes it, and of link to the line.
	 * Each box is a few descriptors at the Host, and as many in the process of the boxes. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	driver_make(d);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	snprintf(value, sizeof(value), "%d", 4 * boxes + 256);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		driver_does(&said, NULL, "settings", "set", "--host", names[i], value, NULL);
	/* All boxes share one process: the box's part of a handshake waits for those of all others.
	 */
	driver_does(&said, NULL, "settings", "set", "--host", "port.handshake_ms", "60000", NULL);
	driver_serve(d, DRIVER_HOST);
	d->port = driver_port();
	snprintf(address, sizeof(address), "127.0.0.1:%d", d->port);
	driver_does(&said, NULL, "host", "listen", address, "--address", address, NULL);
}

/* The JSON member ${name} of ${text}, a text, into ${out}. */
static void
member(const char *text, const char *name, char *out, size_t size)
{
	char mark[32];
	const char *at;

	snprintf(mark, sizeof(mark), "\"%s\":\"", name);
	if ((at = strstr(text, mark)) == NULL)
		fail_msg("no %s in %s", name, text);
	at += strlen(mark);
	assert_true(strcspn(at, "\"") < size);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
}

/* The authority came with the handshake, and was found to be the pinned one. */
static int
authority_keep(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	const struct cert_blob *issuer = &peer->tls->issuer;

	(void)ctx;
	(void)refusal;
	if (authority.data != NULL)
		return 0;
	assert_non_null(authority.data = malloc(issuer->len));
	memcpy(authority.data, issuer->data, issuer->len);
	authority.len = issuer->len;
	return 0;
}

/* The body by which ${s} redeems ${code}, with its request for a certificate. */
static char *
enroll_body(const struct sim *s, const struct pairing_code *code, const unsigned char *digest)
{
	static const struct cert_blob none = {.data = NULL};
	char uri[CERT_URI_MAX + 1], token[2 * CODE_TOKEN + 1], key[65], proof[ENROLL_BASE64];
	const char *const uris[] = {uri, NULL};
	struct cert_blob request;
	struct refusal r = {.why = ""};
	char *body, *hex;

	tls_device(s->identity, uri);
	if (cert_request_make(&s->secret, uris, &request, &r) != 0)
		fail_msg("%s", r.why);
	{
		const struct enroll_proof claim = {.token_digest = digest,
		    .box = s->name,
		    .box_key = s->identity,
		    .transport = "reverse",
		    .request = &request,
		    .authority = &none};

		assert_int_equal(enroll_prove(s->key, &claim, proof), 0);
	}
	sodium_bin2hex(token, sizeof(token), code->token, CODE_TOKEN);
	sodium_bin2hex(key, sizeof(key), s->identity, sizeof(s->identity));
	assert_non_null(hex = malloc(2 * request.len + 1));
	sodium_bin2hex(hex, 2 * request.len + 1, request.data, request.len);
	assert_true(asprintf(&body,
			"{\"token\":\"%s\",\"box\":\"%s\",\"box_key\":\"%s\",\"transport\":"
			"\"reverse\",\"request\":\"%s\",\"proof\":\"%s\"}",
			token, s->name, key, hex, proof) > 0);
	free(hex);
	cert_blob_free(&request);
	return body;
}

/* What the Host answered is signed by it, and certifies this box. */
static void
welcome(struct sim *s, const unsigned char *digest, const char *text)
{
	static char hex[2 * CERT_MAX + 1];
	char host[65], signature[ENROLL_BASE64];
	struct enroll_claim claim = {.token_digest = digest,
	    .box = s->name,
	    .host = host,
	    .box_key = s->identity,
	    .host_key = host_key,
	    .transport = "reverse"};

	member(text, "host", host, sizeof(host));
	member(text, "signature", signature, sizeof(signature));
	member(text, "certificate", hex, sizeof(hex));
	assert_int_equal(cert_from_hex(hex, &s->cert), 0);
	cert_fingerprint(authority.data, authority.len, claim.authority);
	cert_fingerprint(s->cert.data, s->cert.len, claim.certificate);
	assert_int_equal(enroll_check(&claim, signature), 0);
}

static void
enroll(struct sim *s, const struct pairing_code *code)
{
	static const struct http_field headers[] = {
	    {"Content-Type", "application/json"}, {NULL, NULL}};
	const struct tls_config config = {.pin = code->authority};
	unsigned char digest[32];
	struct refusal r = {.why = ""};
	struct http_answer answer = {.body = NULL};
	struct http_request request = {.dial = address,
	    .method = "POST",
	    .url = "https://" TLS_HOST_NAME "/v1/enroll",
	    .headers = headers,
	    .total_ms = WAIT_MS,
	    .reply_max = 4 * CERT_MAX,
	    .verify = authority_keep};
	char *body;

	crypto_hash_sha256(digest, code->token, CODE_TOKEN);
	body = enroll_body(s, code, digest);
	request.body = body;
	request.body_len = strlen(body);
	assert_non_null(request.tls = tls_client_end(&config, &r));
	if (http_ask(&request, &answer, &r) != 0 || answer.status != 200)
		fail_msg("%s: %s%s", s->name, r.why, answer.body != NULL ? answer.body : "");
	welcome(s, digest, answer.body);
	tls_end_free(request.tls);
	free(answer.body);
	free(body);
}

static void
sim_born(struct driver *d, struct sim *s, int i)
{
	struct cert_blob public_key;
	struct refusal r = {.why = ""};
	char path[128];

	snprintf(s->name, sizeof(s->name), "box-%d", i);
	snprintf(path, sizeof(path), "%s/%s.key", d->dir, s->name);
	if (key_create(path, &r) != 0 || (s->key = key_load(path, &r)) == NULL ||
	    cert_key_make(&s->secret, &public_key, &r) != 0)
		fail_msg("%s", r.why);
	key_public(s->key, KEY_IDENTITY, s->identity);
	cert_blob_free(&public_key);
}

void
fleet_pair(struct driver *d, int boxes)
{
	static struct said said;
	struct pairing_code code;
	char text[CODE_MAX + 1];
	struct store *db;
	int i;

	assert_in_range(boxes, 1, FLEET_MAX);
	driver_does(&said, NULL, "host", "invite", "box-0", NULL);
	db = driver_open(d, DRIVER_HOST, ROLE_PERSON, NULL);
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(said.out, "\n"), said.out);
	for (nsims = 0; nsims < boxes; nsims++) {
		sim_born(d, &sims[nsims], nsims);
		i = nsims == 0 ? 0 : invitation_make(db, sims[nsims].name, 0, &code, text);
		if (i != 0 || code_read(db, text, strlen(text), &code) != 0)
			fail_msg("%s: %s", sims[nsims].name, store_refusal(db)->why);
		memcpy(host_key, code.host_key, sizeof(host_key));
		enroll(&sims[nsims], &code);
	}
	store_close(db);
}

/*
 * A box at work.
 */

/* {"w":…}: a checkpoint of this box's audit of one row, which goes on from itself. */
static void
witness(const struct sim *s, bool held, FILE *out)
{
	struct checkpoint_proof proof = {.kind = PROOF_CONSISTENCY, .number = held};
	struct checkpoint cp = {.size = 1};
	unsigned char signature[KEY_SIGN_SIZE];
	char note[CHECKPOINT_TEXT], *text, *c;
	size_t len;
	FILE *f;

	merkle_leaf(s->name, strlen(s->name), cp.root);
	f = open_memstream(&text, &len);
	if (f == NULL || checkpoint_sign(s->key, &cp, signature) != 0)
		abort();
	checkpoint_write(s->identity, &cp, signature, note);
	if (checkpoint_proof_write(&proof, NULL, note, f) != 0)
		abort();
	fclose(f);
	fputs("{\"w\":\"", out);
	for (c = text; *c != '\0'; c++)
		if (*c == '\n')
			fputs("\\n", out);
		else
			putc(*c, out);
	fputs("\"}\n", out);
	free(text);
}

/* An ask that its Host signed is answered with the name of the box. */
static int
answer_ask(struct http_exchange *x, void *ctx)
{
	const struct sim *s = &sims[http_peer(x)->tag];
	struct signed_request asked;
	struct refusal r;
	size_t len;
	char *text;
	FILE *out;

	(void)ctx;
	if (signed_read(x, "/v1/ops", &asked, &r) != 0 ||
	    memcmp(asked.key, host_key, sizeof(host_key)) != 0 ||
	    signed_check(&asked, "conductor", &r) != 0) {
		counts->wrong++;
		http_refuse(x, 403, &r, NULL);
		return 0;
	}
	if ((out = open_memstream(&text, &len)) == NULL)
		return -1;
	witness(s, strstr(asked.request.body, "\"witness\":null") == NULL, out);
	fprintf(out, "{\"r\":{\"box\":\"%s\"}}\n{\"x\":0}\n", s->name);
	fclose(out);
	http_reply(x, 200, "application/x-ndjson", NULL, text, len);
	free(text);
	counts->asks++;
	return 0;
}

static const struct http_route routes[] = {
    {"POST", "/v1/ops", LANE, 65536, answer_ask, ""},
    {NULL, NULL, 0, 0, NULL, NULL},
};

static void
on_changed(void *ctx, unsigned up, const struct refusal *why)
{
	struct sim *s = ctx;

	(void)why;
	counts->up += (up > 0) - (s->up > 0);
	s->up = up;
}

static void beat(void *ctx);

static void
beat_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct sim *s = ctx;

	if (refusal == NULL && http_call_status(call) == 200)
		counts->beats++;
	else
		counts->beats_lost++;
	s->beat = NULL;
	loop_after(loop, every_ms, beat, s);
}

static int
beat_hear(void *ctx, struct http_call *call, const char *data, size_t len)
{
	(void)ctx;
	(void)call;
	(void)data;
	(void)len;
	return 0;
}

static void
beat(void *ctx)
{
	struct sim *s = ctx;
	char body[256];
	struct sign_headers headers;
	struct sign_request sign = {
	    .method = "POST", .path = "/v1/beats", .time = clock_now(), .body = body};
	struct http_request request = {.dial = address,
	    .tls = s->end,
	    .method = "POST",
	    .url = "https://" TLS_HOST_NAME "/v1/beats",
	    .headers = headers.fields,
	    .body = body,
	    .connect_ms = WAIT_MS,
	    .total_ms = WAIT_MS,
	    .reply_max = 65536,
	    .chunk = beat_hear,
	    .done = beat_done,
	    .ctx = s};
	struct refusal r;

	snprintf(body, sizeof(body),
	    "{\"name\":\"%s\",\"version\":\"1\",\"platform\":\"sim\",\"state\":\"active\","
	    "\"caps\":null,\"enforcing\":{},\"endpoint_save_pending\":false,\"orders\":[]}",
	    s->name);
	sign.len = request.body_len = strlen(body);
	if (sign_headers(s->key, s->identity, &sign, &headers) != 0 ||
	    (s->beat = http_start(client, &request, &r)) == NULL) {
		counts->beats_lost++;
		loop_after(loop, every_ms, beat, s);
	}
}

/* A box dials, and beats at its own time. */
static int
sim_start(struct sim *s, int i)
{
	static const struct tls_limits limits = {.connections = 4 * FLEET_MAX,
	    .handshakes = 2 * FLEET_MAX,
	    .per_address = 4 * FLEET_MAX,
	    .handshake_ms = WAIT_MS,
	    .flush_ms = WAIT_MS,
	    .dead_ms = WAIT_MS};
	const char *const addresses[] = {address, NULL};
	const struct tls_config tls = {
	    .cert = &s->cert, .key = &s->secret, .cas = &authority, .ncas = 1};
	struct reverse_config config = {.addresses = addresses,
	    .name = TLS_HOST_NAME,
	    .path = "/v1/line",
	    .limits = &limits,
	    .server = server,
	    .peer = {.surface = LANE, .tag = i},
	    .changed = on_changed,
	    .ctx = s,
	    .connections = 1,
	    .connect_ms = WAIT_MS / 2,
	    .answer_ms = WAIT_MS / 2,
	    .first_ms = PACE_MS * nsims,
	    .cap_ms = WAIT_MS / 4,
	    .steady_ms = 1000};
	struct refusal r;

	if ((s->end = config.tls = tls_client_end(&tls, &r)) == NULL ||
	    (s->reverse = reverse_start(loop, &config, &r)) == NULL) {
		fprintf(stderr, "%s: %s\n", s->name, r.why);
		return -1;
	}
	loop_after(loop, every_ms * i / nsims, beat, s);
	return 0;
}

static int
boxes_run(void)
{
	static const struct http_server_config config = {.routes = routes,
	    .limits = {.connections = 4 * FLEET_MAX,
		.uid_connections = 4 * FLEET_MAX,
		.body = 65536,
		.header_bytes = 8192,
		.headers = 64,
		.idle_ms = WAIT_MS,
		.request_ms = WAIT_MS,
		.stall_ms = WAIT_MS,
		.json_depth = 32,
		.stream_bytes = 65536}};
	struct refusal r;
	int i;

	if ((loop = loop_new()) == NULL || (server = http_server_new(loop, &config, &r)) == NULL ||
	    (client = http_client_new(loop, &r)) == NULL)
		return 1;
	for (i = 0; i < nsims; i++)
		if (sim_start(&sims[i], i) != 0)
			return 1;
	return loop_run(loop) != 0;
}

const volatile struct fleet_counts *
fleet_begin(int64_t beat_ms)
{
	pid_t parent = getpid();

	every_ms = beat_ms;
	counts =
	    mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(counts, MAP_FAILED);
	fflush(NULL);
	assert_true((boxes_pid = fork()) != -1);
	if (boxes_pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
			_exit(1);
		_exit(boxes_run());
	}
	return counts;
}

void
fleet_end(void)
{
	int i;

	if (boxes_pid > 0) {
		kill(boxes_pid, SIGKILL);
		assert_int_equal(waitpid(boxes_pid, NULL, 0), boxes_pid);
		munmap(counts, sizeof(*counts));
	}
	boxes_pid = 0;
	for (i = 0; i < nsims; i++) {
		key_free(sims[i].key);
		cert_blob_free(&sims[i].cert);
		cert_blob_free(&sims[i].secret);
	}
	cert_blob_free(&authority);
	nsims = 0;
}

/*
 * The Host's view.
 */

int64_t
fleet_connected(struct driver *d)
{
	int64_t from = driver_now();

	driver_until(d, DRIVER_HOST, nsims, "SELECT count(*) FROM box_lines WHERE up > 0");
	return driver_now() - from;
}

int64_t
fleet_ask(struct driver *d)
{
	static struct wire_answer answer;
	static int fd[FLEET_MAX];
	char control[256], text[128];
	int64_t from = driver_now();
	int i;

	snprintf(control, sizeof(control), "%s/control.sock", d->run[DRIVER_HOST]);
	for (i = 0; i < nsims; i++) {
		fd[i] = wire_dial(control);
		snprintf(text, sizeof(text),
		    "{\"box\":\"box-%d\",\"op\":\"observe:folders\",\"args\":[\"/usr\",\"1\"]}", i);
		assert_int_equal(
		    wire_request(fd[i], "POST", "/v1/calls", "", text, strlen(text)), 0);
	}
	for (i = 0; i < nsims; i++) {
		wire_take(fd[i], &answer);
		close(fd[i]);
		snprintf(text, sizeof(text), "{\"r\":{\"box\":\"box-%d\"}}\n{\"x\":0}\n", i);
		if (!answer.whole || strstr(answer.body, text) == NULL)
			fail_msg("%s answered %d: %s", sims[i].name, answer.status, answer.body);
	}
	return driver_now() - from;
}

/* Each process of the Host: the daemon and its children. */
static int64_t
over_processes(struct driver *d, int64_t (*of)(pid_t pid))
{
	pid_t daemon = d->serving[DRIVER_HOST], child;
	int64_t sum = of(daemon);
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", daemon, daemon);
	assert_non_null(f = fopen(path, "re"));
	while (fscanf(f, "%d", &child) == 1)
		sum += of(child);
	fclose(f);
	return sum;
}

static int64_t
pss_of(pid_t pid)
{
	char path[64], line[256];
	int64_t kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Pss:", 4) == 0)
			kib = strtoll(line + 4, NULL, 10);
	fclose(f);
	return kib;
}

static int64_t
cpu_of(pid_t pid)
{
	unsigned long user = 0, system = 0;
	char path[64], line[1024] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	/* The 14th and 15th field; the second may have anything in it. */
	if (fgets(line, sizeof(line), f) != NULL && (at = strrchr(line, ')')) != NULL)
		(void)sscanf(
		    at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
	fclose(f);
	return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

int64_t
fleet_memory(struct driver *d)
{
	return over_processes(d, pss_of);
}

int64_t
fleet_cpu(struct driver *d)
{
	return over_processes(d, cpu_of);
}
