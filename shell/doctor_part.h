/* doctor_part.h: what the checks of bastion doctor share; for doctor*.c alone. */
#ifndef SHELL_DOCTOR_PART_H
#define SHELL_DOCTOR_PART_H

#include "shell/doctor.h"

#define DOCTOR_DIAL_MS 2000 /* for whatever should answer on this machine */

struct doctor {
	struct cli *cli;
	bool deep;
	void (*tell)(void *ctx, const struct doctor_finding *finding);
	void *ctx;
};

/**
 * doctor_note(d, check, level, advice, fmt, ...), doctor_note_refusal(d, check, level, r):
 * Tell what was seen, at most 511 bytes of it; the second, what a refusal says, with its own
 * advice.
 */
void doctor_note(struct doctor *d, const char *check, enum doctor_level level, const char *advice,
    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void doctor_note_refusal(
    struct doctor *d, const char *check, enum doctor_level level, const struct refusal *r);

/**
 * doctor_rows(d), doctor_places(d), doctor_agents(d), doctor_machine(d):
 * Look at what the open database says of itself; at the sockets and ports at which the daemon
 * should answer; at the tool servers that clients of agents declare; and at the machine, its
 * kernel, limits and clock, for which d->cli->db may be NULL.
 */
void doctor_rows(struct doctor *d);
void doctor_places(struct doctor *d);
void doctor_agents(struct doctor *d);
void doctor_machine(struct doctor *d);

#endif
