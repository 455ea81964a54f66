/* remote.c: logins as files, and asks over TLS. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/tls_identity.h"
#include "net/http/json.h"
#include "net/http/tls.h"
#include "shell/answer.h"
#include "shell/remote.h"

#define DIRECTORY  "remotes"
#define FILE_MAX   1024
#define CONNECT_MS 15000 /* to reach it, the handshake included */
#define ANSWER_MS  30000 /* to the head of an answer, and to its end where it is no stream */
#define REPLY_MAX  8388608
#define DEPTH      32

/* The name of a file: nothing that leads elsewhere, and no file that is half written. */
static int
name_check(const char *name, struct refusal *r)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t len = strnlen(name, REMOTE_NAME_MAX + 1);

	if (len >= 1 && len <= REMOTE_NAME_MAX && strchr(letters, name[0]) != NULL &&
	    strcspn(name, "/") == len &&
	    name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
			      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			      "0123456789._-")] == '\0')
		return 0;
	return refusal_set(
	    r, "remote.name", "a name is 1 to 64 letters, digits, dots, dashes and underscores");
}

/* The directory of logins, made where ${create}; or -1. */
static int
directory(bool create, struct refusal *r)
{
	struct refusal why = {.code = ""};
	struct home home;
	struct stat st;
	int fd;

	if (home_open(&home, HOME_BOX, create, &why) != 0) {
		if (strcmp(why.code, "store.missing") == 0)
			refusal_set(&why, "remote.login", "there is no login of this name");
		refusal_set(r, why.code, "%s", why.why);
		return -1;
	}
	if (create && mkdirat(home.fd, DIRECTORY, 0700) == -1 && errno != EEXIST)
		refusal_errno(r, "store.directory", DIRECTORY);
	fd = openat(home.fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	home_close(&home);
	if (fd == -1) {
		refusal_set(r, "remote.login", "there is no login of this name");
		return -1;
	}
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0)
		return fd;
	close(fd);
	refusal_set(r, "remote.open", "others can reach the directory of the logins");
	return -1;
}

static int
login_write(int fd, const struct remote_login *login)
{
	char text[FILE_MAX], pin[65];
	ssize_t n;
	int len;

	sodium_bin2hex(pin, sizeof(pin), login->pin, sizeof(login->pin));
	len = snprintf(text, sizeof(text), "bastion-remote 1\naddress %s\npin %s\ntoken %s\n",
	    login->address, pin, login->token);
	n = write(fd, text, (size_t)len);
	sodium_memzero(text, sizeof(text));
	if (n == -1)
		return -1;
	if (n != len) {
		errno = ENOSPC;
		return -1;
	}
	return fsync(fd);
}

int
remote_login_save(const struct remote_login *login, struct refusal *r)
{
	char temp[40] = ".";
	int dir, fd, rc = -1;

	if (name_check(login->name, r) != 0 || (dir = directory(true, r)) == -1)
		return -1;
	random_hex(temp + 1);
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd == -1) {
		refusal_errno(r, "store.failed", "the login");
	} else if (login_write(fd, login) == -1 || renameat(dir, temp, dir, login->name) == -1 ||
		   fsync(dir) == -1) {
		refusal_errno(r, "store.failed", "the login");
		unlinkat(dir, temp, 0);
	} else {
		rc = 0;
	}
	if (fd != -1)
		close(fd);
	close(dir);
	return rc;
}

/* The text of the file ${name}, where nobody else has it. */
static int
login_text(int dir, const char *name, char text[FILE_MAX], struct refusal *r)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = -1;

	if (fd == -1 && errno == ENOENT)
		return refusal_set(r, "remote.login", "there is no login of this name");
	if (fd == -1)
		return refusal_errno(r, "remote.open", "the login");
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    (st.st_mode & 077) == 0 && st.st_nlink == 1)
		n = read(fd, text, FILE_MAX - 1);
	close(fd);
	if (n == -1)
		return refusal_set(r, "remote.open", "others can read or write the login");
	text[n] = '\0';
	return 0;
}

int
remote_login_read(const char *text, struct remote_login *login)
{
	char address[ENDPOINT_TEXT_MAX + 1], pin[65], token[REMOTE_TOKEN_LEN + 1];
	struct endpoint at;
	int rc, end = 0;

	_Static_assert(ENDPOINT_TEXT_MAX == 261 && REMOTE_TOKEN_LEN == 85, "the widths below");
	rc = sscanf(text, "bastion-remote 1\naddress %261s\npin %64s\ntoken %85s%n", address, pin,
	    token, &end);
	if (rc != 3 || end == 0 || strcmp(text + end, "\n") != 0 ||
	    strlen(token) != REMOTE_TOKEN_LEN || strlen(pin) != 64 ||
	    sodium_hex2bin(login->pin, sizeof(login->pin), pin, 64, NULL, NULL, NULL) != 0 ||
	    endpoint_parse(address, strlen(address), &at, NULL) != 0)
		return -1;
	snprintf(login->address, sizeof(login->address), "%s", at.text);
	memcpy(login->token, token, sizeof(token));
	sodium_memzero(token, sizeof(token));
	return 0;
}

int
remote_login_load(const char *name, struct remote_login *login, struct refusal *r)
{
	char text[FILE_MAX];
	int dir, rc;

	if (name_check(name, r) != 0 || (dir = directory(false, r)) == -1)
		return -1;
	rc = login_text(dir, name, text, r);
	close(dir);
	if (rc != 0)
		return -1;
	snprintf(login->name, sizeof(login->name), "%s", name);
	rc = remote_login_read(text, login);
	sodium_memzero(text, sizeof(text));
	return rc == 0 ? 0 : refusal_set(r, "remote.open", "this file is no login");
}

int
remote_login_drop(const char *name, struct refusal *r)
{
	int dir, rc;

	if (name_check(name, r) != 0 || (dir = directory(false, r)) == -1)
		return -1;
	rc = unlinkat(dir, name, 0);
	if (rc == -1 && errno == ENOENT)
		refusal_set(r, "remote.login", "there is no login of this name");
	else if (rc == -1)
		refusal_errno(r, "store.failed", "the login");
	close(dir);
	return rc;
}

int
remote_login_each(
    void (*fn)(void *ctx, const struct remote_login *login), void *ctx, struct refusal *r)
{
	struct remote_login login;
	struct dirent *e;
	DIR *list;
	int dir;

	if ((dir = directory(false, r)) == -1)
		return strcmp(r->code, "remote.login") == 0 ? 0 : -1; /* none was kept yet */
	if ((list = fdopendir(dir)) == NULL) {
		close(dir);
		return refusal_errno(r, "store.failed", "the logins");
	}
	while ((e = readdir(list)) != NULL)
		if (remote_login_load(e->d_name, &login, NULL) == 0)
			fn(ctx, &login);
	closedir(list);
	sodium_memzero(&login, sizeof(login));
	return 0;
}

/* A request as it goes out: ${q} points into it. */
struct letter {
	char bearer[REMOTE_TOKEN_LEN + 16], url[512];
	struct http_field headers[3];
	struct http_request q;
};

static int
letter_write(struct letter *l, const struct remote_login *login,
    const struct remote_request *request, struct tls_end *end, struct refusal *r)
{
	if ((size_t)snprintf(l->url, sizeof(l->url), "https://%s%s", TLS_BOX_NAME, request->path) >=
	    sizeof(l->url))
		return refusal_set(r, "usage.wrong", "this name is too long");
	snprintf(l->bearer, sizeof(l->bearer), "Bearer %s", login->token);
	l->headers[0] = (struct http_field){"Authorization", l->bearer};
	l->headers[1] =
	    (struct http_field){request->type == NULL ? NULL : "Content-Type", request->type};
	l->headers[2] = (struct http_field){NULL, NULL};
	l->q = (struct http_request){.dial = login->address,
	    .tls = end,
	    .keep = request->keep,
	    .method = request->method,
	    .url = l->url,
	    .headers = l->headers,
	    .body = request->body,
	    .body_len = request->len,
	    .connect_ms = CONNECT_MS,
	    .head_ms = ANSWER_MS,
	    .total_ms = request->stream ? 0 : ANSWER_MS,
	    .reply_max = request->stream ? 0 : REPLY_MAX,
	    .chunk = request->chunk,
	    .done = request->done,
	    .ctx = request->ctx};
	return 0;
}

struct tls_end *
remote_tls(const struct remote_login *login, struct refusal *r)
{
	const struct tls_config config = {.pin = login->pin};

	return tls_client_end(&config, r);
}

int
remote_ask(const struct remote_login *login, const struct remote_request *request,
    struct http_answer *answer, struct refusal *r)
{
	struct tls_end *end = remote_tls(login, r);
	struct letter l = {.url = ""};
	int rc = -1;

	if (end != NULL && letter_write(&l, login, request, end, r) == 0)
		rc = http_ask(&l.q, answer, r);
	sodium_memzero(&l, sizeof(l));
	tls_end_free(end);
	return rc;
}

struct http_call *
remote_start(struct http_client *client, struct tls_end *end, const struct remote_login *login,
    const struct remote_request *request, struct refusal *r)
{
	struct http_call *call = NULL;
	struct letter l = {.url = ""};

	if (letter_write(&l, login, request, end, r) == 0)
		call = http_start(client, &l.q, r);
	sodium_memzero(&l, sizeof(l));
	return call;
}

int
remote_refuse(struct cli *cli, const char *text)
{
	struct answer_view view = {.mode = cli->mode};
	struct answer_end end = {.exit_code = 0};
	int found = -1;

	if (http_json_check(text, strlen(text), DEPTH, NULL) == 0)
		found = answer_refusal(&view, text, &end);
	answer_drop(&view);
	if (found != 0) {
		refusal_set(&cli->refusal, "http.protocol",
		    "what answers there is no bastion, or another version");
		return cli_refuse(cli);
	}
	cli->refusal = end.refusal;
	return end.exit_code == 0 ? cli_refuse(cli) : cli_refuse_as(cli, end.exit_code, end.advice);
}

bool
remote_is_cut(const struct refusal *r)
{
	static const char *const codes[] = {
	    "http.unreachable", "http.timeout", "http.aborted", "http.protocol", "tls.handshake"};
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strcmp(r->code, codes[i]) == 0)
			return true;
	return false;
}
