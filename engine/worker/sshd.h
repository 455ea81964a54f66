/* sshd.h: read what sshd wrote into the journal, lines that strangers had a hand in. */
#ifndef ENGINE_WORKER_SSHD_H
#define ENGINE_WORKER_SSHD_H

#include <stddef.h>

#define SSHD_NAME_MAX   32
#define SSHD_SOURCE_MAX 64
#define SSHD_TIME_MAX   32

enum sshd_kind {
	SSHD_NOTHING,   /* not about a login, or not a line of sshd */
	SSHD_UNCLEAR,   /* about a login, but where names end cannot be told */
	SSHD_FAILED,    /* "Failed METHOD for …": one attempt */
	SSHD_CONNECTED, /* a connection that came without a login: one attempt unless it has others
			 */
	SSHD_ACCEPTED,
};

/* A line, with every field in bounds and in its alphabet; other characters became '?'. */
struct sshd_line {
	enum sshd_kind kind;
	char time[SSHD_TIME_MAX + 1];
	char user[SSHD_NAME_MAX + 1];
	char method[SSHD_NAME_MAX + 1];
	char source[SSHD_SOURCE_MAX + 1];      /* an IP address or a host name */
	char connection[SSHD_SOURCE_MAX + 32]; /* process, source and port */
};

/**
 * sshd_parse(text, len, line):
 * Read one line of "journalctl -o short-iso", ${len} bytes that may hold anything, into ${line}.
 * Return its kind.
 */
enum sshd_kind sshd_parse(const char *text, size_t len, struct sshd_line *line);

#endif
