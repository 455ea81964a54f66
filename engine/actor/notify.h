/* notify.h: what the service manager is told: sd_notify(3) without its library. */
#ifndef ENGINE_ACTOR_NOTIFY_H
#define ENGINE_ACTOR_NOTIFY_H

#include <stdint.h>

/**
 * notify_send(text, wait_ms):
 * Send ${text} ("READY=1") to the socket that NOTIFY_SOCKET names, a path or "@" and an abstract
 * name; where its queue is full, wait at most ${wait_ms} for a place.  Return 1; 0 where nobody
 * listens for it; or -1 with errno set.
 */
int notify_send(const char *text, int wait_ms);

/**
 * notify_watchdog_ms(void):
 * Return how often, in milliseconds, "WATCHDOG=1" is due: half of WATCHDOG_USEC where WATCHDOG_PID
 * is ours or not given; 0 where nobody waits for it.
 */
int64_t notify_watchdog_ms(void);

#endif
