/* control.c: messages over a socket pair that keeps their bounds. */
#include <sys/socket.h>

#include <errno.h>
#include <string.h>

#include "engine/actor/control.h"

#define ORDER_MAGIC  0x62616f31 /* "bao1" */
#define WORD_MAGIC   0x62617731 /* "baw1" */
#define REPORT_MAGIC 0x62617231 /* "bar1" */

int
control_pair(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds);
}

static int
control_send(int fd, const void *message, size_t size)
{
	ssize_t sent;

	do
		sent = send(fd, message, size, MSG_NOSIGNAL);
	while (sent == -1 && errno == EINTR);
	return sent == (ssize_t)size ? 0 : -1;
}

static int
control_take(int fd, void *message, size_t size, int flags)
{
	ssize_t got;

	do
		got = recv(fd, message, size, flags | MSG_TRUNC);
	while (got == -1 && errno == EINTR);
	return got == (ssize_t)size ? 0 : -1;
}

int
control_order(int fd, struct control_order *order)
{
	order->magic = ORDER_MAGIC;
	return control_send(fd, order, sizeof(*order));
}

int
control_go(int fd, struct control_word *word)
{
	word->magic = WORD_MAGIC;
	return control_send(fd, word, sizeof(*word));
}

int
control_report(int fd, struct control_report *report)
{
	report->magic = REPORT_MAGIC;
	return control_send(fd, report, sizeof(*report));
}

int
control_take_order(int fd, struct control_order *order)
{
	if (control_take(fd, order, sizeof(*order), 0) == -1 || order->magic != ORDER_MAGIC)
		return -1;
	order->state[sizeof(order->state) - 1] = '\0';
	order->run[sizeof(order->run) - 1] = '\0';
	return order->role == HOME_BOX || order->role == HOME_HOST ? 0 : -1;
}

int
control_take_go(int fd, struct control_word *word)
{
	return control_take(fd, word, sizeof(*word), 0) == -1 || word->magic != WORD_MAGIC ? -1 : 0;
}

int
control_take_report(int fd, struct control_report *report)
{
	if (control_take(fd, report, sizeof(*report), MSG_DONTWAIT) == -1 ||
	    report->magic != REPORT_MAGIC)
		return -1;
	report->refusal.code[REFUSAL_CODE_MAX - 1] = '\0';
	report->refusal.why[REFUSAL_WHY_MAX - 1] = '\0';
	return report->kind == CONTROL_READY || report->kind == CONTROL_REFUSED ? 0 : -1;
}
