/* test_openapi.c: the description that is served says what is served, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/host/net.h"
#include "tests/driver.h"
#include "tests/wire.h"

static struct driver d;
static struct wire_answer answer;

static const struct {
	const char *name; /* behind the directory for sockets */
	unsigned surface;
	enum driver_side side;
} sockets[] = {
    {"/control", SURFACE_CONTROL, DRIVER_BOX},
    {"/lane", SURFACE_LANE, DRIVER_BOX},
    {"/enroll", SURFACE_ENROLL, DRIVER_HOST},
    {"/lines", SURFACE_LINES, DRIVER_HOST},
    {"-ask/ask", SURFACE_CONTEXT, DRIVER_BOX},
    {"/control", SURFACE_CONTROL, DRIVER_HOST},
};

#define SOCKETS (sizeof(sockets) / sizeof(sockets[0]))

static const char *
socket_path(size_t i)
{
	static char path[640];

	snprintf(path, sizeof(path), "%s%s.sock", d.run[sockets[i].side], sockets[i].name);
	return path;
}

/* What jq makes of the text in ${answer}; its exit code. */
static int
jq(const char *filter, char *out, size_t size)
{
	char path[640], command[4096];
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/openapi.json", d.dir);
	assert_non_null(f = fopen(path, "we"));
	assert_int_equal(fwrite(answer.body, 1, answer.len, f), answer.len);
	assert_int_equal(fclose(f), 0);
	snprintf(command, sizeof(command), "jq -er '%s' %s", filter, path);
	assert_non_null(f = popen(command, "re"));
	len = fread(out, 1, size - 1, f);
	out[len] = '\0';
	return pclose(f);
}

static int
serve(void **state)
{
	static struct said said;

	(void)state;
	driver_make(&d);
	driver_serve_begin(&d, DRIVER_BOX);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve_begin(&d, DRIVER_HOST);
	driver_serve_wait(&d, DRIVER_BOX);
	driver_serve_wait(&d, DRIVER_HOST);
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
surfaces_of(const struct http_route *route, char out[64])
{
	/* In the order of the description. */
	snprintf(out, 64, "%s%s%s%s%s%s%s%s%s",
	    (route->surface & SURFACE_CONTROL) != 0 ? "control " : "",
	    (route->surface & SURFACE_LANE) != 0 ? "lane " : "",
	    (route->surface & SURFACE_ENROLL) != 0 ? "enroll " : "",
	    (route->surface & SURFACE_CONTEXT) != 0 ? "context " : "",
	    (route->surface & SURFACE_MCP) != 0 ? "mcp " : "",
	    (route->surface & SURFACE_GUEST) != 0 ? "guest " : "",
	    (route->surface & SURFACE_PEER) != 0 ? "peer " : "",
	    (route->surface & SURFACE_LINES) != 0 ? "lines " : "",
	    (route->surface & SURFACE_REMOTE) != 0 ? "remote " : "");
}

/* API-1: every route stands in the description with its method, path, surfaces and summary, and
 * every path of the description is a route. */
static void
description_and_routes_are_the_same(void **state)
{
	static char listed[65536];
	const struct http_route *route;
	char surfaces[64], one[1024], *lines[64];
	int n = 0, found = 0;
	char *at;

	(void)state;
	assert_int_equal(
	    wire_ask(socket_path(0), "GET", "/v1/openapi.json", "", "", 0, &answer), 200);
	assert_int_equal(
	    jq(".paths | to_entries[] | .key as $path | .value | to_entries[]"
	       " | [(.key | ascii_upcase), $path, (.value[\"x-bastion-surface\"] | join(\" \")) + \" \","
	       "    .value.summary] | join(\"|\")",
		listed, sizeof(listed)),
	    0);
	for (at = strtok(listed, "\n"); at != NULL; at = strtok(NULL, "\n"))
		lines[n++] = at;
	for (route = net_routes; route->method != NULL; route++, found++) {
		int i, same = 0;

		surfaces_of(route, surfaces);
		snprintf(one, sizeof(one), "%s|%s|%s|%s", route->method, route->path, surfaces,
		    route->summary);
		for (i = 0; i < n; i++)
			same += strcmp(lines[i], one) == 0;
		if (same != 1)
			fail_msg("the description has %d times: %s", same, one);
	}
	assert_int_equal(found, n);
}

/* API-2: it is OpenAPI 3.1 in form: version, info, every $ref leads somewhere, every operation
 * answers, every POST says what it takes. */
static void
description_is_openapi(void **state)
{
	char out[4096];

	(void)state;
	assert_int_equal(
	    wire_ask(socket_path(1), "GET", "/v1/openapi.json", "", "", 0, &answer), 200);
	assert_int_equal(jq("(.openapi | startswith(\"3.1.\")) and (.info.title | length > 0)"
			    " and (.info.version | type == \"string\")",
			     out, sizeof(out)),
	    0);
	assert_int_equal(
	    jq(". as $all | [.. | objects | .\"$ref\"? // empty | ltrimstr(\"#/\")"
	       "   | split(\"/\") as $p | $all | getpath($p)] | all(. != null) and length > 0",
		out, sizeof(out)),
	    0);
	assert_int_equal(jq("[.paths[][] | .responses | length > 0] | all", out, sizeof(out)), 0);
	assert_int_equal(
	    jq("[.paths[].post // empty | .requestBody.content | .[\"application/json\"].schema"
	       "  // has(\"application/octet-stream\")] | all(. != null and . != false) and length > 0",
		out, sizeof(out)),
	    0);
}

/* API-3: the same bytes on every surface that says so; on a socket where a path is not offered it
 * does not exist. */
static void
paths_exist_where_the_description_says(void **state)
{
	static char first[65536];
	const struct http_route *route;
	size_t i;

	(void)state;
	for (i = 0; i < SOCKETS; i++) {
		assert_int_equal(
		    wire_ask(socket_path(i), "GET", "/v1/openapi.json", "", "", 0, &answer), 200);
		assert_true(answer.len < sizeof(first));
		if (i == 0)
			memcpy(first, answer.body, answer.len + 1);
		assert_string_equal(answer.body, first);
		for (route = net_routes; route->method != NULL; route++) {
			int status = wire_ask(
			    socket_path(i), route->method, route->path, "", "", 0, &answer);

			/* A thing of the name {name} is not there either, but its path is. */
			if (((route->surface & sockets[i].surface) != 0) ==
			    (status == 404 && strcmp(answer.refused, "session.unknown") != 0))
				fail_msg("%s %s on %s: %d", route->method, route->path,
				    sockets[i].name, status);
		}
	}
}

/* API-4: a method that a path does not have, and a path that is none, are refused in the form. */
static void
what_is_not_offered_is_refused_in_the_form(void **state)
{
	char out[256];

	(void)state;
	assert_int_equal(wire_ask(socket_path(0), "DELETE", "/v1/status", "", "", 0, &answer), 405);
	assert_int_equal(wire_ask(socket_path(0), "GET", "/v1/nothing", "", "", 0, &answer), 404);
	assert_true(answer.refused[0] != '\0');
	assert_int_equal(jq(".error.code", out, sizeof(out)), 0);
	out[strcspn(out, "\n")] = '\0';
	assert_string_equal(out, answer.refused);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(description_and_routes_are_the_same),
	    cmocka_unit_test(description_is_openapi),
	    cmocka_unit_test(paths_exist_where_the_description_says),
	    cmocka_unit_test(what_is_not_offered_is_refused_in_the_form),
	};

	return cmocka_run_group_tests(tests, serve, stop);
}
