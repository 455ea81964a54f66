/* fuzz_sandbox_plan.c: a plan on the wire, and what it comes to: any bytes, and a good plan that
 * was bent. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_job.h"
#include "engine/worker/sandbox_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t good[8192];
static size_t good_len;

static void
make_good(void)
{
	static char sh[] = "sh", x[] = "PATH=/bin:/usr/bin";
	char *argv[] = {sh, NULL}, *env[] = {x, NULL};
	const struct sandbox_path paths[] = {{SANDBOX_READ, "/usr", "/usr"},
	    {SANDBOX_WRITE, "/tmp", "/w"}, {SANDBOX_LINK, "usr/bin", "/bin"},
	    {SANDBOX_HIDE, NULL, "/w/a"}, {SANDBOX_SHOW, NULL, "/w/a/b"},
	    {SANDBOX_KEEP, NULL, "/w/c"}, {SANDBOX_EFFECT, "/var", "/v"}};
	const char *forbidden[] = {"/var/lib/bastion"};
	const struct sandbox_listener listeners[] = {
	    {.port = 53, .datagram = true, .any = true}, {.port = 1081, .catch = true}};
	struct sandbox_plan plan = {.argv = argv,
	    .env = env,
	    .cwd = "/w",
	    .paths = paths,
	    .path_count = 7,
	    .forbidden = forbidden,
	    .forbidden_count = 1,
	    .net = SANDBOX_NET_CAUGHT,
	    .listeners = listeners,
	    .listener_count = 2,
	    .uid = 1000,
	    .gid = 1000};
	struct refusal refusal;
	ssize_t n = -1;
	int fd;

	sandbox_limits(&plan.limits);
	if ((fd = sandbox_wire_write(&plan, &refusal)) != -1) {
		n = pread(fd, good, sizeof(good), 0);
		close(fd);
	}
	if (n <= 0)
		abort();
	good_len = (size_t)n;
}

/* Whatever it says is checked before anything is done; nothing is started here. */
static void
take(const uint8_t *data, size_t size)
{
	static struct sandbox_job job;
	struct sandbox_caller caller = {1000, 1000};
	struct sandbox_report report = {0};
	struct sandbox_wire w;
	struct refusal refusal;
	size_t i;

	if (sandbox_wire_parse(data, size, &w) == 0) {
		for (i = 0; i < 3; i++)
			w.plan.stdio[i] = (int)i;
		for (i = 0; i < w.plan.fd_count; i++)
			w.fds[i] = 0;
		sandbox_compile(&w.plan, &caller, &job, &report, &refusal);
		sandbox_job_free(&job);
	}
	sandbox_wire_free(&w);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bent[sizeof(good) + 65536 + 2];
	size_t at;

	take(data, size);
	if (good_len == 0)
		make_good();
	if (size < 3 || size > 65536)
		return 0;
	/* The first two bytes say where in a good plan the others are written. */
	at = (size_t)(data[0] | data[1] << 8) % good_len;
	memcpy(bent, good, good_len);
	memcpy(bent + at, data + 2, size - 2);
	take(bent, at + size - 2 > good_len ? at + size - 2 : good_len);
	return 0;
}
