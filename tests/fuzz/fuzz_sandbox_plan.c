/* fuzz_sandbox_plan.c: a plan on the wire, and what it comes to. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/worker/sandbox_job.h"
#include "engine/worker/sandbox_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sandbox_job job;
	struct sandbox_caller caller = {1000, 1000};
	struct sandbox_report report = {0};
	struct sandbox_wire w;
	struct refusal refusal;
	size_t i;

	if (sandbox_wire_parse(data, size, &w) == 0) {
		/* Whatever it says is checked before anything is done; nothing is started here. */
		for (i = 0; i < 3; i++)
			w.plan.stdio[i] = (int)i;
		for (i = 0; i < w.plan.fd_count; i++)
			w.fds[i] = 0;
		sandbox_compile(&w.plan, &caller, &job, &report, &refusal);
		sandbox_job_free(&job);
	}
	sandbox_wire_free(&w);
	return 0;
}
