/* test_mcp.c: agents by others speak with a real Host and a real box, and a person approves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/driver.h"

#define PEERS "build/peers"
#define NODE  PEERS "/node_modules/.bin/node"
#define HELLO                                                                                      \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" \
	"\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n"

static struct driver d;
static struct said said;
static uint16_t port;
static char token[128], url[64], program[4096];

/* A program that runs, and what it says. */
struct peer {
	pid_t pid;
	FILE *out;
	int in;
};

static void
peer_start(struct peer *p, const char *const *words)
{
	int out[2], in[2];

	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(in), 0);
	fflush(NULL);
	if ((p->pid = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execv(words[0], (char *const *)(uintptr_t)words);
		_exit(127);
	}
	assert_true(p->pid > 0);
	close(out[1]);
	close(in[0]);
	p->in = in[1];
	assert_non_null(p->out = fdopen(out[0], "re"));
}

/* Return its exit code. */
static int
peer_over(struct peer *p)
{
	int status;

	close(p->in);
	fclose(p->out);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
needs_peers(void)
{
	if (access(NODE, X_OK) == 0)
		return;
	print_message("the peers are not installed: make peers\n");
	skip();
}

static uint16_t
free_port(void)
{
	struct sockaddr_in name = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&name, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	close(fd);
	return ntohs(name.sin_port);
}

static int
serve(void **state)
{
	const char *given = getenv("BASTION");
	char text[16];
	FILE *f;

	(void)state;
	driver_first_day(&d);
	driver_does(&said, NULL, "settings", "set", "factor.steps", "10", NULL);
	port = free_port();
	snprintf(text, sizeof(text), "%u", (unsigned)port);
	driver_does(&said, NULL, "settings", "set", "--host", "mcp.port", text, NULL);
	driver_does(&said, NULL, "settings", "set", "--host", "mcp.beat_ms", "500", NULL);
	driver_end(&d, DRIVER_HOST, SIGTERM);
	driver_serve(&d, DRIVER_HOST);
	driver_does(&said, NULL, "mcp", "token", "add", "peer", NULL);
	snprintf(token, sizeof(token), "%s/token", d.dir);
	assert_non_null(f = fopen(token, "we"));
	fputs(said.out, f);
	assert_int_equal(fclose(f), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/mcp", (unsigned)port);
	assert_non_null(realpath(given != NULL ? given : "build/bastion", program));
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static void
put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", d.dir, name);
	assert_non_null(f = fopen(path, "we"));
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* An op that runs until a gate is opened. */
static void
gate_add(void)
{
	char text[1024], path[256], code[8];

	snprintf(path, sizeof(path), "%s/gate", d.dir);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/gate/open", d.dir);
	unlink(path);
	snprintf(
	    text, sizeof(text), "while [ ! -e %s ]; do sleep 0.05; done\necho passed $1\n", path);
	put("gate.sh", text);
	snprintf(text, sizeof(text),
	    "{\"name\":\"run:gate\",\"summary\":\"go through\",\"program\":\"%s/gate.sh\","
	    "\"interpreter\":\"/bin/sh\",\"reads\":[\"%s/gate\"],\"params\":[{\"name\":\"word\","
	    "\"type\":\"string\",\"in\":[\"one\",\"two\"],\"doc\":\"which\"}]}",
	    d.dir, d.dir);
	put("gate.json", text);
	snprintf(path, sizeof(path), "%s/gate.json", d.dir);
	driver_does(&said, driver_code(&d, code), "op", "add", path, NULL);
}

/* It goes, while it runs. */
static void
gate_drop(void)
{
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM op_run WHERE op = 'run:gate' AND state = 'running'");
	driver_does(&said, NULL, "op", "rm", "run:gate", NULL);
}

/* Let the SDK's client do all that it does, approve what it waits for, and do what it asks for. */
static void
sdk_does(const char *const *words)
{
	char line[1024], all[8192] = "";
	bool gate = false;
	struct peer p;

	setenv("PEERS", PEERS, 1);
	peer_start(&p, words);
	while (fgets(line, sizeof(line), p.out) != NULL) {
		strncat(all, line, sizeof(all) - strlen(all) - 1);
		if (strncmp(line, "waits: ", 7) == 0)
			driver_approve(&d, driver_question(&d));
		if (strncmp(line, "waits: ", 7) == 0 && gate)
			gate_drop();
		if (strcmp(line, "open\n") == 0)
			put("gate/open", "");
		if (strcmp(line, "add\n") == 0) {
			gate_add();
			gate = true;
		}
	}
	if (peer_over(&p) != 0 || strstr(all, "ended\n") == NULL)
		fail_msg("%s", all);
	driver_until(
	    &d, DRIVER_HOST, 0, "SELECT count(*) FROM call WHERE state IN ('asked', 'sent')");
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT code = 'call.cancelled' FROM call WHERE op = 'observe:folders'"
	    " ORDER BY id DESC LIMIT 1");
}

/* ME-1: the SDK's client, over standard input and output. */
static void
sdk_over_stdio(void **state)
{
	const char *const words[] = {NODE, "tests/mcp/peer.mjs", "stdio", program, d.box, NULL};

	(void)state;
	needs_peers();
	sdk_does(words);
}

/* ME-2: the SDK's client, over HTTP. */
static void
sdk_over_http(void **state)
{
	const char *const words[] = {NODE, "tests/mcp/peer.mjs", "http", url, token, d.box, NULL};

	(void)state;
	needs_peers();
	sdk_does(words);
}

/* Run ${words} to its end; what it says is in ${out}. */
static int
run(const char *const *words, char *out, size_t size)
{
	struct peer p;
	size_t len;

	peer_start(&p, words);
	len = fread(out, 1, size - 1, p.out);
	out[len] = '\0';
	return peer_over(&p);
}

/* ME-3: the inspector's command line, over both. */
static void
inspector_lists_and_reads(void **state)
{
	static char out[65536];
	char header[256] = "Authorization: Bearer ", state_dir[256], run_dir[256];
	const char *const stdio[] = {NODE, PEERS "/node_modules/.bin/mcp-inspector", "--cli",
	    program, "mcp", "-e", state_dir, "-e", run_dir, "--method", "tools/list", NULL};
	const char *const http[] = {NODE, PEERS "/node_modules/.bin/mcp-inspector", "--cli", url,
	    "--transport", "http", "--header", header, "--method", "resources/read", "--uri",
	    "bastion://boxes", NULL};
	FILE *f;

	(void)state;
	needs_peers();
	snprintf(state_dir, sizeof(state_dir), "BASTION_HOST_STATE=%s", d.state[DRIVER_HOST]);
	snprintf(run_dir, sizeof(run_dir), "BASTION_HOST_RUN=%s", d.run[DRIVER_HOST]);
	assert_int_equal(run(stdio, out, sizeof(out)), 0);
	assert_non_null(strstr(out, ".observe_folders"));
	assert_non_null(f = fopen(token, "re"));
	assert_non_null(fgets(header + strlen(header), 128, f));
	fclose(f);
	header[strcspn(header, "\n")] = '\0';
	assert_int_equal(run(http, out, sizeof(out)), 0);
	assert_non_null(strstr(out, d.box));
}

/* ME-4: the public conformance suite: every scenario passes but those that ask for what we do not
 * offer, and those fail. It sends no token, so a proxy does. */
static void
conformance_suite_passes(void **state)
{
	static char out[262144];
	char there[64], upstream[16], port_text[16] = "";
	const char *const proxy[] = {NODE, "tests/mcp/bearer.mjs", upstream, token, NULL};
	const char *const suite[] = {NODE,
	    PEERS "/node_modules/@modelcontextprotocol/conformance/dist/index.js", "server",
	    "--url", there, "--suite", "all", "--expected-failures", "tests/mcp/not_applicable.yml",
	    NULL};
	struct peer p;
	int code;

	(void)state;
	needs_peers();
	snprintf(upstream, sizeof(upstream), "%u", (unsigned)port);
	peer_start(&p, proxy);
	assert_non_null(fgets(port_text, sizeof(port_text), p.out));
	snprintf(there, sizeof(there), "http://localhost:%d/mcp", atoi(port_text));
	code = run(suite, out, sizeof(out));
	kill(p.pid, SIGTERM);
	peer_over(&p);
	if (code != 0)
		fail_msg("%s", out);
	assert_non_null(strstr(out, "server-initialize: 1 passed, 0 failed"));
	assert_non_null(strstr(out, "dns-rebinding-protection: 2 passed, 0 failed"));
}

/*
 * Standard input and output, by hand.
 */

/* An agent that has called a tool nobody approved, and waits. */
static void
wait_begin(struct peer *p)
{
	const char *const words[] = {program, "mcp", NULL};
	char line[8192], ask[512];

	peer_start(p, words);
	snprintf(ask, sizeof(ask),
	    HELLO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
		  "\"%s.observe_folders\",\"arguments\":{\"path\":\"/usr/bin\"},\"_meta\":{"
		  "\"progressToken\":1}}}\n",
	    d.box);
	assert_int_equal(write(p->in, ask, strlen(ask)), strlen(ask));
	do
		assert_non_null(fgets(line, sizeof(line), p->out));
	while (strstr(line, "approve question") == NULL);
}

static void
wait_was_taken_back(void)
{
	driver_until(&d, DRIVER_HOST, 1,
	    "SELECT code = 'call.cancelled' FROM call ORDER BY id DESC LIMIT 1");
}

/* ME-5: the end of its input, a signal, and the death of the agent end it, and take back what it
 * waits for. */
static void
an_end_takes_back_what_waits(void **state)
{
	struct peer p;

	(void)state;
	wait_begin(&p);
	assert_int_equal(peer_over(&p), 0);
	wait_was_taken_back();
	wait_begin(&p);
	kill(p.pid, SIGTERM);
	assert_int_equal(peer_over(&p), 0);
	wait_was_taken_back();
}

/* ME-6: without the Host's daemon a call says what to do, and views are shown. */
static void
without_a_daemon_views_are_shown(void **state)
{
	char ask[2048];

	(void)state;
	driver_end(&d, DRIVER_HOST, SIGTERM);
	snprintf(ask, sizeof(ask),
	    HELLO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
		  "\"%s.observe_logins\"}}\n"
		  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/read\",\"params\":{\"uri\":"
		  "\"bastion://boxes\"}}\n",
	    d.box);
	driver_does(&said, ask, "mcp", NULL);
	assert_non_null(strstr(said.out, "[call.offline]"));
	assert_non_null(strstr(said.out, "bastion host serve"));
	assert_non_null(strstr(said.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\""));
	driver_does(&said, HELLO, "mcp", "--machine", NULL);
	assert_null(strstr(said.out, "\"tools\""));
	driver_serve(&d, DRIVER_HOST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sdk_over_stdio),
	    cmocka_unit_test(sdk_over_http),
	    cmocka_unit_test(inspector_lists_and_reads),
	    cmocka_unit_test(conformance_suite_passes),
	    cmocka_unit_test(an_end_takes_back_what_waits),
	    cmocka_unit_test(without_a_daemon_views_are_shown),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
