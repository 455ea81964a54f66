/* remote_bundle.c: git writes a bundle, which goes to the other machine piece by piece. */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net/http/json.h"
#include "shell/remote_bundle.h"
#include "shell/text.h"

#define PIECE     65536 /* as the other machine takes it */
#define DEPTH     32
#define AGAIN_MS  50 /* until the other machine is asked again; doubles */
#define AGAIN_CAP 1000
#define CUT_MS    25000 /* how long the way may be cut: less than a copy waits there */

static const char MEMBERS[] =
    "SELECT :f ->> '$.id', :f ->> '$.received', :f ->> '$.state', :f ->> '$.path',"
    "  coalesce(:f ->> '$.message', 'it was ended there'), :f ->> '$.error.code'";

/* A copy under way. */
struct copy {
	struct cli *cli;
	const struct remote_login *login;
	const char *name, *folder;
	FILE *file;
	int64_t size, received, id;
	char sha256[2 * crypto_hash_sha256_BYTES + 1];
	char state[16], path[PATH_MAX], message[512], code[64];
	int status;
	char piece[PIECE];
};

/* Run git with ${words} in ${dir}, its output to ${out}.  Return how it ended; -1: it did not run.
 */
static int
git(const char *dir, int out, const char *const words[])
{
	const char *argv[16] = {
	    "git", "-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"};
	int status, n = 7, i;
	pid_t pid;

	for (i = 0; words[i] != NULL && n < 15; i++)
		argv[n++] = words[i];
	argv[n] = NULL;
	if ((pid = fork()) == 0) {
		if (dup2(out, 1) == -1)
			_exit(127);
		execvp("git", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	if (pid == -1)
		return -1;
	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

static int
failed(struct copy *c, const char *what)
{
	refusal_errno(&c->cli->refusal, "bundle.failed", what);
	return cli_refuse(c->cli);
}

/* Have git write the bundle into a file that nobody else has.  Return 0, or an exit code. */
static int
make(struct copy *c, const char *dir)
{
	static const char *const inside[] = {"rev-parse", "--is-inside-work-tree", NULL};
	static const char *const create[] = {"bundle", "create", "-q", "-", "--all", NULL};
	uint8_t digest[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state hash;
	char word[16] = "";
	size_t n;
	int rc;

	if ((c->file = tmpfile()) == NULL)
		return failed(c, "a file for the bundle");
	if ((rc = git(dir, fileno(c->file), inside)) == -1) {
		refusal_set(&c->cli->refusal, "bundle.failed", "git could not be run to its end");
		return cli_refuse(c->cli);
	}
	if (rc != 0 || fseek(c->file, 0, SEEK_SET) != 0 ||
	    fgets(word, sizeof(word), c->file) == NULL || strcmp(word, "true\n") != 0)
		return cli_usage(c->cli, "--repo: %s is no git work tree", dir);
	if (fflush(c->file) != 0 || ftruncate(fileno(c->file), 0) == -1 ||
	    lseek(fileno(c->file), 0, SEEK_SET) == -1)
		return failed(c, "the bundle");
	if (git(dir, fileno(c->file), create) != 0) {
		refusal_set(&c->cli->refusal, "bundle.tree", "git makes no bundle of %.256s", dir);
		return cli_refuse(c->cli);
	}
	rewind(c->file);
	crypto_hash_sha256_init(&hash);
	while ((n = fread(c->piece, 1, sizeof(c->piece), c->file)) > 0) {
		crypto_hash_sha256_update(&hash, (const uint8_t *)c->piece, n);
		c->size += (int64_t)n;
	}
	if (ferror(c->file))
		return failed(c, "the bundle");
	crypto_hash_sha256_final(&hash, digest);
	sodium_bin2hex(c->sha256, sizeof(c->sha256), digest, sizeof(digest));
	return 0;
}

static void
copy_text(char *to, size_t size, sqlite3_stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q, i);

	snprintf(to, size, "%s", text == NULL ? "" : (const char *)text);
}

/* Take what was answered apart.  Return 0, or -1 where it is no answer. */
static int
read_answer(struct copy *c, const char *text)
{
	sqlite3 *json = NULL;
	sqlite3_stmt *q = NULL;
	int rc = -1;

	if (http_json_check(text, strlen(text), DEPTH, &c->cli->refusal) == 0 &&
	    sqlite3_open(":memory:", &json) == SQLITE_OK &&
	    sqlite3_prepare_v2(json, MEMBERS, -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_bind_text(q, 1, text, -1, SQLITE_STATIC) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW) {
		if (c->status == 200) {
			c->id = sqlite3_column_int64(q, 0);
			c->received = sqlite3_column_int64(q, 1);
		}
		copy_text(c->state, sizeof(c->state), q, 2);
		copy_text(c->path, sizeof(c->path), q, 3);
		copy_text(c->message, sizeof(c->message), q, 4);
		copy_text(c->code, sizeof(c->code), q, 5);
		rc = c->id > 0 && c->received >= 0 && c->received <= c->size ? 0 : -1;
	}
	sqlite3_finalize(q);
	sqlite3_close(json);
	if (rc != 0 && c->status == 200)
		refusal_set(&c->cli->refusal, "http.protocol", "what was answered is no copy");
	return rc;
}

/* Ask once.  Return 0 with an answer; 1 where asking again is some use; or -1 with ${*code}. */
static int
ask(struct copy *c, const struct remote_request *request, int *code)
{
	struct http_answer answer;
	int rc = 0;

	c->status = 0;
	if (remote_ask(c->login, request, &answer, &c->cli->refusal) != 0) {
		if (remote_is_cut(&c->cli->refusal))
			return 1;
		*code = cli_refuse(c->cli);
		return -1;
	}
	c->status = answer.status;
	c->code[0] = '\0';
	if (read_answer(c, answer.body) != 0 && c->status == 200) {
		*code = cli_refuse(c->cli);
		rc = -1;
	} else if (c->status == 503 || strcmp(c->code, "session.input") == 0 ||
		   strcmp(c->code, "bundle.offset") == 0) {
		rc = 1;
	} else if (c->status != 200) {
		*code = remote_refuse(c->cli, answer.body);
		rc = -1;
	}
	free(answer.body);
	return rc;
}

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
pause_ms(int64_t ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* Begin it; or find what is under way already. */
static int
begin(struct copy *c, int *code)
{
	struct remote_request request = {
	    .method = "POST", .path = "/v1/bundles", .type = "application/json"};
	char *body = NULL;
	FILE *f;
	int rc;

	if ((f = open_memstream(&body, &request.len)) == NULL) {
		*code = failed(c, "the ask");
		return -1;
	}
	fputs("{\"name\":", f);
	text_json(f, c->name, strlen(c->name));
	fputs(",\"cwd\":", f);
	text_json(f, c->folder, strlen(c->folder));
	fprintf(f, ",\"size\":%" PRId64 ",\"sha256\":\"%s\"}", c->size, c->sha256);
	if (fclose(f) != 0) {
		*code = failed(c, "the ask");
		free(body);
		return -1;
	}
	request.body = body;
	rc = ask(c, &request, code);
	free(body);
	return rc;
}

/* Send what comes next, or ask how it is where all of it is there. */
static int
step(struct copy *c, int *code)
{
	struct remote_request request = {.method = "GET"};
	char path[96];

	snprintf(path, sizeof(path), "/v1/bundles/%" PRId64, c->id);
	request.path = path;
	if (c->received < c->size && c->code[0] == '\0') {
		snprintf(path, sizeof(path), "/v1/bundles/%" PRId64 "/data?at=%" PRId64, c->id,
		    c->received);
		if (fseek(c->file, (long)c->received, SEEK_SET) != 0 ||
		    (request.len = fread(c->piece, 1, sizeof(c->piece), c->file)) == 0) {
			*code = failed(c, "the bundle");
			return -1;
		}
		request.method = "POST";
		request.type = "application/octet-stream";
		request.body = c->piece;
	}
	return ask(c, &request, code);
}

/* To its end.  Return 0, or the exit code of a refusal. */
static int
drive(struct copy *c)
{
	int64_t wait = AGAIN_MS, since = now_ms();
	int rc, code = 1;

	while ((rc = c->id == 0 ? begin(c, &code) : step(c, &code)) != -1) {
		if (rc == 0 && strcmp(c->state, "open") != 0)
			break;
		if (rc == 0) {
			since = now_ms();
			wait = AGAIN_MS;
		} else if (now_ms() - since > CUT_MS && c->status != 429) {
			return cli_refuse(c->cli);
		}
		if (rc == 1 || c->received == c->size)
			pause_ms(wait);
		if (rc == 1)
			wait = wait * 2 < AGAIN_CAP ? wait * 2 : AGAIN_CAP;
	}
	if (rc == -1)
		return code;
	if (strcmp(c->state, "live") == 0 || strcmp(c->state, "replaced") == 0)
		return 0;
	refusal_set(&c->cli->refusal, "bundle.failed", "%.400s", c->message);
	return cli_refuse(c->cli);
}

int
remote_bundle(struct cli *cli, const struct remote_login *login, const char *dir,
    const char *folder, char path[PATH_MAX])
{
	struct copy *c = calloc(1, sizeof(*c));
	char whole[PATH_MAX];
	int rc;

	if (c == NULL || realpath(dir, whole) == NULL) {
		refusal_errno(&cli->refusal, "bundle.tree", dir);
		free(c);
		return cli_refuse(cli);
	}
	c->cli = cli;
	c->login = login;
	c->name = strrchr(whole, '/') + 1;
	c->folder = folder;
	if ((rc = make(c, whole)) == 0 && (rc = drive(c)) == 0)
		memcpy(path, c->path, PATH_MAX);
	if (c->file != NULL)
		fclose(c->file);
	free(c);
	return rc;
}
