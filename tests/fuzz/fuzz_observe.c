/*
 * fuzz_observe.c: the argument walls and the readers of others' lines, with any bytes.
 *
 * The first byte picks the target.  Whatever passes must be what the contract says; anything else
 * is a crash.  Seeds: fixtures/journal/sshd.txt.
 */
#include <arpa/inet.h>

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/answer.h"
#include "engine/worker/listener.h"
#include "engine/worker/observe.h"
#include "engine/worker/sshd.h"
#include "engine/worker/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(int holds)
{
	if (!holds)
		abort();
}

/* Is ${text} made of letters, digits and ${more} only? */
static int
only(const char *text, const char *more)
{
	for (; *text != '\0'; text++) {
		if ((unsigned char)*text >= 0x80 ||
		    (!isalnum((unsigned char)*text) && strchr(more, *text) == NULL))
			return 0;
	}
	return 1;
}

static int
below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* OB-1. */
static void
is_folder(const struct observe_args *a)
{
	const char *p = a->v[0];

	must(a->n == 2 && p[0] == '/' && strstr(p, "..") == NULL && strstr(p, "//") == NULL);
	must(strstr(p, "/./") == NULL && (p[1] == '\0' || p[strlen(p) - 1] != '/'));
	must(!below(p, "/proc") && !below(p, "/sys") && !below(p, "/dev"));
	for (; *p != '\0'; p++)
		must((unsigned char)*p >= 0x20 && *p != 0x7f);
	must(strlen(a->v[1]) == 1 && a->v[1][0] >= '1' && a->v[1][0] <= '3');
}

/* Where a verb may reach: nothing that leads up or into the kernel's own. */
static void
is_target(const char *p)
{
	must(p[0] == '/' && p[1] != '\0' && strstr(p, "//") == NULL && strstr(p, "/./") == NULL);
	must(strstr(p, "/../") == NULL && p[strlen(p) - 1] != '/');
	must(!below(p, "/proc") && !below(p, "/sys") && !below(p, "/dev"));
	for (; *p != '\0'; p++)
		must((unsigned char)*p >= 0x20 && *p != 0x7f);
}

/* OB-2. */
static void
is_unit(const struct observe_args *a, const struct observe_word *word)
{
	const char *u = a->v[0];
	int64_t minutes = strtoll(a->v[1], NULL, 10);

	must(a->n == 2 && strlen(u) <= 255 && strchr("-.@", u[0]) == NULL);
	must(only(u, ":-_.\\@") && strchr(u, '.') != NULL);
	must(strlen(u) >= word->len && memcmp(u, word->text, word->len) == 0);
	must(u[word->len] == '\0' || strcmp(u + word->len, ".service") == 0);
	must(minutes >= 1 && minutes <= 60);
}

/* OB-3. */
static void
is_cert(const struct observe_args *a)
{
	int64_t port = strtoll(a->v[0], NULL, 10);
	const char *p;

	must(port >= 1 && port <= 65535);
	if (a->n == 1)
		return;
	must(only(a->v[1], "-.") && strstr(a->v[1], "..") == NULL);
	must(a->v[1][0] != '-' && a->v[1][0] != '.' && a->v[1][0] != '\0');
	for (p = a->v[1]; *p != '\0'; p++)
		must(!isupper((unsigned char)*p));
}

/* Two words, parted by the first newline; what passes also passes again, unchanged. */
static void
try_words(const char *op, const char *text, size_t len)
{
	const char *part = memchr(text, '\n', len);
	struct observe_word words[2] = {{text, len}, {NULL, 0}};
	struct observe_args canon, again;
	struct refusal refusal;
	int n = 1, i;

	if (part != NULL) {
		words[0].len = (size_t)(part - text);
		words[1].text = part + 1;
		words[1].len = len - words[0].len - 1;
		n = 2;
	}
	if (observe_check(op, n, words, &canon, &refusal) == -1) {
		must(memchr(refusal.code, '\0', sizeof(refusal.code)) != NULL);
		return;
	}
	if (strcmp(op, "observe:folders") == 0)
		is_folder(&canon);
	else if (strcmp(op, "observe:journal") == 0)
		is_unit(&canon, &words[0]);
	else if (strcmp(op, "observe:cert") == 0)
		is_cert(&canon);
	else if (strcmp(op, "file:move") == 0)
		is_target(canon.v[0]), is_target(canon.v[1]);
	else if (strcmp(op, "tree:checkout") == 0)
		must(only(canon.v[1], "-_./") && strchr("-_./", canon.v[1][0]) == NULL);
	else if (strcmp(op, "service:restart") == 0)
		must(only(canon.v[0], ":-_.\\@") && strstr(canon.v[0], ".service") != NULL);
	for (i = 0; i < canon.n; i++) {
		words[i].text = canon.v[i];
		words[i].len = strlen(canon.v[i]);
	}
	must(observe_check(op, canon.n, words, &again, &refusal) == 0);
	must(memcmp(&canon, &again, sizeof(canon)) == 0);
}

/* OB-4. */
static int
try_line(void *ctx, const char *text, size_t len)
{
	unsigned char address[16];
	struct sshd_line l;

	(void)ctx;
	switch (sshd_parse(text, len, &l)) {
	case SSHD_NOTHING:
	case SSHD_UNCLEAR:
		must(l.source[0] == '\0');
		return 0;
	default:
		break;
	}
	must(l.user[0] != '\0' && strlen(l.user) <= SSHD_NAME_MAX && only(l.user, "._-$?"));
	must(strlen(l.method) <= SSHD_NAME_MAX && only(l.method, "-/?"));
	must(strlen(l.time) <= SSHD_TIME_MAX && only(l.time, "+-:.?"));
	must(l.source[0] != '\0' && strlen(l.source) <= SSHD_SOURCE_MAX);
	must(inet_pton(AF_INET, l.source, address) == 1 ||
	     inet_pton(AF_INET6, l.source, address) == 1 || only(l.source, ".-_"));
	return 0;
}

static int
try_listener(void *ctx, const char *text, size_t len)
{
	struct listener *l = ctx;

	listener_line(l, text, len);
	must(l->ndials >= 0 && l->ndials <= LISTENER_DIALS_MAX);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	struct listener listener = {.port = 443};
	struct tool_lines lines = {.line = try_line};

	if (size < 1)
		return 0;
	size--;
	switch (data[0] % 13) {
	case 0:
		try_words("observe:folders", text, size);
		break;
	case 1:
		try_words("observe:journal", text, size);
		break;
	case 2:
		try_words("observe:logins", text, size);
		break;
	case 3:
		try_words("observe:cert", text, size);
		break;
	case 6:
		try_words("observe:services", text, size);
		break;
	case 7:
		try_words("observe:packages", text, size);
		break;
	case 8:
		try_words("observe:processes", text, size);
		break;
	case 9:
		try_words("grant:drop", text, size);
		break;
	case 10:
		try_words("file:move", text, size);
		break;
	case 11:
		try_words("tree:checkout", text, size);
		break;
	case 12:
		try_words("service:restart", text, size);
		break;
	case 4:
		lines.line = try_listener;
		lines.ctx = &listener;
		tool_lines_sink(&lines, text, size);
		tool_lines_end(&lines);
		listener_sort(&listener);
		break;
	default:
		tool_lines_sink(&lines, text, size);
		tool_lines_end(&lines);
		break;
	}
	return 0;
}
