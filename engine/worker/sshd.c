/*
 * sshd.c: a parser for lines that a stranger can shape.
 *
 * A user name may hold spaces and look like the rest of a line ("x from 1.2.3.4 port 1").  What
 * sshd itself wrote stands last, so the source is read from the end: the last " from SOURCE port N"
 * that is followed by the end of the line, or by what sshd puts there.
 */
#include <arpa/inet.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/sshd.h"

#define MESSAGE_MAX 2048

/* How a line about a login begins, and what stands between it and the user's name. */
struct form {
	const char *begin;
	enum sshd_kind kind;
	int has_method; /* "BEGIN METHOD for USER from SOURCE port N ssh2…" */
	const char *from;
};

static const struct form forms[] = {
    {"Failed ", SSHD_FAILED, 1, " from "},
    {"Accepted ", SSHD_ACCEPTED, 1, " from "},
    {"Invalid user ", SSHD_CONNECTED, 0, " from "},
    {"Connection closed by invalid user ", SSHD_CONNECTED, 0, " "},
    {"Connection closed by authenticating user ", SSHD_CONNECTED, 0, " "},
    {"Connection reset by invalid user ", SSHD_CONNECTED, 0, " "},
    {"Connection reset by authenticating user ", SSHD_CONNECTED, 0, " "},
    {"Disconnected from invalid user ", SSHD_CONNECTED, 0, " "},
    {"Disconnected from authenticating user ", SSHD_CONNECTED, 0, " "},
};

static int
is_plain(unsigned char c, const char *more)
{
	return c < 0x80 && c != 0 && (isalnum(c) || strchr(more, c) != NULL);
}

/* Copy at most ${max} characters; what is outside letters, digits and ${more} becomes '?'. */
static void
copy_name(char *out, size_t max, const char *text, size_t len, const char *more)
{
	size_t i;

	for (i = 0; i < len && i < max; i++)
		out[i] = is_plain((unsigned char)text[i], more) ? text[i] : '?';
	if (i == 0)
		out[i++] = '?';
	out[i] = '\0';
}

/* Store ${text} as a source if it is an address, with or without a zone, or looks like a host. */
static int
take_source(const char *text, size_t len, char *out)
{
	unsigned char address[16];
	char *zone;
	size_t i;

	if (len == 0 || len > SSHD_SOURCE_MAX || memchr(text, '\0', len) != NULL)
		return -1;
	memcpy(out, text, len);
	out[len] = '\0';
	if ((zone = strchr(out, '%')) != NULL)
		*zone = '\0';
	if (inet_pton(AF_INET, out, address) == 1 || inet_pton(AF_INET6, out, address) == 1)
		return 0;
	if (zone != NULL || !isalnum((unsigned char)out[0]))
		return -1;
	for (i = 0; i < len; i++) {
		if (!is_plain((unsigned char)out[i], ".-_"))
			return -1;
	}
	return 0;
}

/* Is ${rest} something that sshd writes behind the port? */
static int
is_end(const char *rest, size_t len, const struct form *form)
{
	if (!form->has_method)
		return len == 0 || (len == 10 && memcmp(rest, " [preauth]", 10) == 0);
	if (len < 5 || memcmp(rest, " ssh2", 5) != 0)
		return 0;
	return len == 5 || rest[5] == ':' || (len == 15 && memcmp(rest + 5, " [preauth]", 10) == 0);
}

/* Read "SOURCE port N" and the end of the line.  Return the port's length, or 0. */
static size_t
take_origin(const char *text, size_t len, const struct form *form, char *source, char *port)
{
	const char *space = memchr(text, ' ', len);
	size_t n, left, digits = 0;

	if (space == NULL)
		return 0;
	n = (size_t)(space - text);
	left = len - n;
	if (left < 7 || memcmp(space, " port ", 6) != 0)
		return 0;
	space += 6;
	left -= 6;
	while (digits < left && digits < 5 && isdigit((unsigned char)space[digits]))
		digits++;
	if (digits == 0 || !is_end(space + digits, left - digits, form) ||
	    take_source(text, n, source) == -1)
		return 0;
	memcpy(port, space, digits);
	port[digits] = '\0';
	return digits;
}

/* Find where the user's name ends, from the back of ${text}.  Return its length, or -1. */
static long
find_origin(const char *text, size_t len, const struct form *form, char *source, char *port)
{
	size_t flen = strlen(form->from), at;
	char earlier_source[SSHD_SOURCE_MAX + 1], earlier_port[8];
	long found = -1;

	for (at = len + 1; at-- > 0;) {
		if (len - at < flen || memcmp(text + at, form->from, flen) != 0)
			continue;
		if (found == -1) {
			if (take_origin(text + at + flen, len - at - flen, form, source, port) != 0)
				found = (long)at;
			continue;
		}
		/*
		 * A certificate's text stands behind the port and may be a stranger's as well: with
		 * two ways to read the line neither is sure.
		 */
		if (take_origin(text + at + flen, len - at - flen, form, earlier_source,
			earlier_port) != 0 &&
		    memmem(text + at, len - at, "-CERT ", 6) != NULL)
			return -1;
	}
	return found;
}

/* Step over "TIME HOST sshd[PID]: ".  Return where the message begins, or NULL. */
static const char *
take_head(const char *text, size_t len, struct sshd_line *line, char *pid, size_t pidlen)
{
	static const char *const names[] = {"sshd[", "sshd-session[", "sshd-auth["};
	const char *end = text + len, *host, *ident, *close;
	size_t i, n;

	if ((host = memchr(text, ' ', len)) == NULL ||
	    (ident = memchr(host + 1, ' ', (size_t)(end - host - 1))) == NULL)
		return NULL;
	ident++;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		n = strlen(names[i]);
		if ((size_t)(end - ident) < n || memcmp(ident, names[i], n) != 0)
			continue;
		close = memchr(ident, ']', (size_t)(end - ident));
		if (close == NULL || end - close < 3 || memcmp(close, "]: ", 3) != 0)
			return NULL;
		copy_name(line->time, SSHD_TIME_MAX, text, (size_t)(host - text), "+-:.");
		copy_name(pid, pidlen - 1, ident + n, (size_t)(close - ident) - n, "");
		return close + 3;
	}
	return NULL;
}

/* Step over "METHOD for [invalid user ]".  Return where the user's name begins, or NULL. */
static const char *
take_method(const char *text, const char *end, struct sshd_line *line)
{
	const char *space = memchr(text, ' ', (size_t)(end - text));

	if (space == NULL || end - space < 5 || memcmp(space, " for ", 5) != 0)
		return NULL;
	copy_name(line->method, SSHD_NAME_MAX, text, (size_t)(space - text), "-/");
	text = space + 5;
	if (end - text >= 13 && memcmp(text, "invalid user ", 13) == 0)
		text += 13;
	return text;
}

enum sshd_kind
sshd_parse(const char *text, size_t len, struct sshd_line *line)
{
	const char *end, *message;
	char pid[16], port[8];
	size_t i, n;
	long user;

	memset(line, 0, sizeof(*line));
	if (len > MESSAGE_MAX)
		len = MESSAGE_MAX;
	end = text + len;
	if ((message = take_head(text, len, line, pid, sizeof(pid))) == NULL)
		return SSHD_NOTHING;
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		n = strlen(forms[i].begin);
		if ((size_t)(end - message) < n || memcmp(message, forms[i].begin, n) != 0)
			continue;
		message += n;
		line->kind = SSHD_UNCLEAR;
		if (forms[i].has_method && (message = take_method(message, end, line)) == NULL)
			return line->kind;
		user = find_origin(message, (size_t)(end - message), &forms[i], line->source, port);
		if (user == -1) {
			line->source[0] = '\0';
			return line->kind;
		}
		copy_name(line->user, SSHD_NAME_MAX, message, (size_t)user, "._-$");
		snprintf(line->connection, sizeof(line->connection), "%s %s %s", pid, line->source,
		    port);
		return line->kind = forms[i].kind;
	}
	return SSHD_NOTHING;
}
