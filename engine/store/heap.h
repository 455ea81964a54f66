/* heap.h: the memory that a database's schema takes, asked for at once. */
#ifndef ENGINE_STORE_HEAP_H
#define ENGINE_STORE_HEAP_H

/**
 * heap_ready():
 * Let the heap of this process grow by what reading the schema takes (6 MiB), with its pages there.
 * The first call counts; in a process whose allocator is not the C library's it does nothing.
 */
void heap_ready(void);

#endif
