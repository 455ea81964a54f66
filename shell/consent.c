/* consent.c: ask at the terminal itself. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "shell/consent.h"
#include "shell/text.h"

void
consent_question(FILE *out, const char *present, const char *host)
{
	size_t len;

	fputs("This machine is asked by ", out);
	text_show(out, present, strlen(present));
	fputs(" already.\nLet the Host \"", out);
	/* The quotes are ours: a name with one in it stays inside. */
	for (; *host != '\0'; host += len) {
		if ((len = strcspn(host, "\"\\")) > 0)
			text_show(out, host, len);
		else
			len = (size_t)(fprintf(out, "\\%c", *host) - 1);
	}
	fputs("\" ask it as well? [y/N] ", out);
}

/* One line, byte by byte, so that nothing behind it is taken.  What does not end is no answer. */
static void
line_read(int fd, char answer[CONSENT_ANSWER])
{
	size_t len = 0;
	char c = '\0';

	while (read(fd, &c, 1) == 1 && c != '\n') {
		if (len < CONSENT_ANSWER)
			answer[len] = c;
		len++;
	}
	answer[c == '\n' && len < CONSENT_ANSWER ? len : 0] = '\0';
}

/* The terminal, with nothing typed ahead; NULL without one. */
static FILE *
terminal(void)
{
	FILE *out;
	int tty;

	if ((tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) == -1)
		return NULL;
	if ((out = fdopen(tty, "r+")) == NULL) {
		close(tty);
		return NULL;
	}
	tcflush(tty, TCIFLUSH);
	return out;
}

static void
answer_take(FILE *out, char answer[CONSENT_ANSWER])
{
	fflush(out);
	line_read(fileno(out), answer);
	fclose(out);
}

int
consent_ask(const char *present, const char *host, char answer[CONSENT_ANSWER])
{
	FILE *out;

	if ((out = terminal()) == NULL)
		return -1;
	consent_question(out, present, host);
	answer_take(out, answer);
	return 0;
}

int
consent_yes(const char *question)
{
	char answer[CONSENT_ANSWER];
	FILE *out;

	if ((out = terminal()) == NULL)
		return -1;
	fprintf(out, "%s [y/N] ", question);
	answer_take(out, answer);
	return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}
