/* heap.c: one step of the heap instead of fifty, and large pages instead of a fault for each. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/store/heap.h"

#define HEAP_BYTES (6 * 1024 * 1024) /* most of what the schema takes once it is read */
#define NUDGE      (120 * 1024) /* below what gets a mapping of its own; the heap begins with 132 */

/*
 * On a virtual machine each of thousands of page faults costs microseconds, up to more than ten
 * where the memory is the host's to find; this call takes a tenth of one a page, and with large
 * pages hardly that.
 */
static void
grow(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)sbrk(0), to;
	void *volatile nudge[2];
	size_t i;

	mallopt(M_TOP_PAD, HEAP_BYTES);
	for (i = 0; i < 2; i++)
		nudge[i] = malloc(NUDGE);
	for (i = 0; i < 2; i++)
		free(nudge[i]);
	from = (from + page - 1) / page * page;
	if ((to = (uintptr_t)sbrk(0)) <= from)
		return;
	(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
	(void)madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}

void
heap_ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, grow);
}
