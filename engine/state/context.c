/* context.c: put, take back, allow and deny asks to share a folder. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/context.h"
#include "engine/state/factor.h"

/* A name is the last part of the path where none is given; a Host is the only one that is served.
 */
static const char ASK[] =
    "INSERT INTO context_ask (nonce, uid, box_name, pairing_id, host_name, root, name, asked_at,"
    "    expires_at)"
    " SELECT :nonce, :uid, b.name, p.id, coalesce(p.host, ''), :root,"
    "    coalesce(nullif(:name, ''), substr(:root, length(rtrim(:root, replace(:root, '/', '')))"
    "             + 1, 64)),"
    "    now_ms(), now_ms() + (SELECT value FROM setting WHERE name = 'context.ttl_ms')"
    "  FROM box AS b LEFT JOIN"
    "    (SELECT CASE count(*) WHEN 1 THEN min(id) END AS id, min(host) AS host FROM pairing_status"
    "      WHERE (:host = '' AND active) OR host = :host) AS p";

static const char WITHDRAW[] =
    "UPDATE context_ask SET state = iif(state = 'allowed', 'dropped', 'withdrawn'),"
    "    ended_at = now_ms() WHERE id = :id AND uid = :uid";

static const char EXISTS[] = "SELECT 1 FROM context_ask WHERE id = :id"
			     " AND (:uid IS NULL OR uid = :uid)";

static const char OPEN[] =
    "SELECT state = 'pending', expires_at > now_ms(), digest IS :digest, terms, root, uid"
    "  FROM context_ask WHERE id = :id";

static const char ALLOW[] =
    "UPDATE context_ask SET state = 'allowed', factor_id = :factor, decided_digest = :digest,"
    "    decided_by_uid = :uid, decided_by = :by, decided_at = now_ms(), folder_dev = :dev,"
    "    folder_ino = :ino, folder_uid = :owner,"
    "    seal = seal_sign('folder', json_array('folder', id, pairing_id, uid, root, name, :dev, :ino,"
    "                                          :factor, now_ms()))"
    " WHERE id = :id";

static const char DENY[] =
    "UPDATE context_ask SET state = 'denied', decided_by_uid = :uid,"
    "    decided_by = coalesce(:by, 'uid ' || :uid), decided_at = now_ms(), ended_at = now_ms()"
    " WHERE id = :id";

static const char DROP[] = "UPDATE context_ask SET state = 'dropped', ended_at = now_ms()"
			   " WHERE id = :id";

/* An ask as the person finds it. */
struct question {
	char *terms; /* free it */
	char root[PATH_MAX];
	int64_t uid;
};

int
context_ask(struct store *db, const struct context_request *request, int64_t *id)
{
	char nonce[33];
	struct stmt *q;

	if ((q = store_sql(db, ASK)) == NULL)
		return -1;
	random_hex(nonce);
	stmt_text(q, ":nonce", nonce);
	stmt_int(q, ":uid", request->uid);
	stmt_text(q, ":root", request->root);
	stmt_text(q, ":name", request->name);
	stmt_text(q, ":host", request->host);
	if (stmt_run_one(q) != 0)
		return -1;
	*id = store_last_id(db);
	return 0;
}

/* ${uid} is -1 where the ask may be anybody's. */
static int
ask_exists(struct store *db, int64_t uid, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, EXISTS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (uid != -1)
		stmt_int(q, ":uid", uid);
	if (stmt_value(q, 0) != 1)
		return refusal_set(
		    store_refusal(db), "context.unknown", "there is no ask of this number");
	return 0;
}

int
context_withdraw(struct store *db, int64_t uid, int64_t id)
{
	struct stmt *q;

	if (ask_exists(db, uid, id) != 0 || (q = store_sql(db, WITHDRAW)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":uid", uid);
	return stmt_run_one(q);
}

int
context_look(const char *root, int64_t uid, struct context_folder *folder, struct refusal *refusal)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	    .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	struct stat st;
	int fd, rc;

	/* A link could lead elsewhere tomorrow, and the person would not have read where. */
	if ((fd = (int)syscall(SYS_openat2, AT_FDCWD, root, &how, sizeof(how))) == -1)
		return errno == ELOOP ? refusal_set(refusal, "context.link",
					    "a part of the folder's path is a symbolic link")
				      : refusal_errno(refusal, "context.folder", "the folder");
	rc = fstat(fd, &st);
	close(fd);
	if (rc != 0)
		return refusal_errno(refusal, "context.folder", "the folder");
	if ((int64_t)st.st_uid != uid)
		return refusal_set(refusal, "context.owner",
		    "the folder is user %u's, and user %u asks", (unsigned)st.st_uid,
		    (unsigned)uid);
	*folder = (struct context_folder){(int64_t)st.st_dev, (int64_t)st.st_ino, st.st_uid};
	return 0;
}

/* What stands in the way of an answer, before a proof is looked at; the triggers say it again. */
static int
question_refused(struct stmt *q, struct refusal *r)
{
	if (stmt_get_int(q, 0) == 0)
		return refusal_set(r, "context.decided", "this ask is decided already");
	if (stmt_get_int(q, 1) == 0)
		return refusal_set(r, "context.expired", "this ask ran out before it was answered");
	if (stmt_get_int(q, 2) == 0)
		return refusal_set(r, "context.terms", "what was shown is not what is asked");
	return 0;
}

static int
question_look(struct store *db, const struct approval_answer *answer, struct question *question)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, OPEN)) == NULL)
		return -1;
	stmt_int(q, ":id", answer->id);
	stmt_blob(q, ":digest", answer->digest, APPROVAL_DIGEST);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "context.unknown",
				      "there is no ask of this number");
	if ((rc = question_refused(q, store_refusal(db))) == 0 &&
	    (question->terms = strdup(stmt_get_text(q, 3))) == NULL)
		rc = refusal_set(store_refusal(db), "store.failed", "out of memory");
	snprintf(question->root, sizeof(question->root), "%s", stmt_get_text(q, 4));
	question->uid = stmt_get_int(q, 5);
	stmt_done(q);
	return rc;
}

/* The transaction is over when this fails. */
static int
answer_prove(struct store *db, const struct approval_answer *answer, struct context_folder *folder,
    int64_t *factor)
{
	struct question question = {.terms = NULL};
	int rc;

	if (question_look(db, answer, &question) != 0 ||
	    context_look(question.root, question.uid, folder, store_refusal(db)) != 0)
		rc = store_rollback(db);
	else if (answer->code != NULL)
		rc = factor_prove_totp(db, answer->key, answer->code, factor);
	else
		rc = factor_prove_ssh(
		    db, question.terms, strlen(question.terms), answer->signature, factor);
	free(question.terms);
	return rc;
}

static int
allow_write(struct store *db, const struct approval_answer *answer,
    const struct context_folder *folder, int64_t factor)
{
	struct stmt *q;

	if ((q = store_sql(db, ALLOW)) == NULL)
		return -1;
	stmt_int(q, ":id", answer->id);
	stmt_int(q, ":factor", factor);
	stmt_blob(q, ":digest", answer->digest, APPROVAL_DIGEST);
	stmt_int(q, ":uid", answer->uid);
	stmt_text(q, ":by", answer->name);
	stmt_int(q, ":dev", folder->dev);
	stmt_int(q, ":ino", folder->ino);
	stmt_int(q, ":owner", folder->uid);
	return stmt_run_one(q);
}

int
context_allow(struct store *db, const struct approval_answer *answer)
{
	struct context_folder folder;
	int64_t factor;

	if (answer->name == NULL)
		return refusal_set(store_refusal(db), "approval.person",
		    "the user directory did not say in time who you are");
	if (store_begin(db) != 0 || answer_prove(db, answer, &folder, &factor) != 0)
		return -1;
	if (allow_write(db, answer, &folder, factor) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
context_deny(struct store *db, const struct approval_answer *answer)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (ask_exists(db, -1, answer->id) != 0 || (q = store_sql(db, DENY)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", answer->id);
	stmt_int(q, ":uid", answer->uid);
	stmt_text(q, ":by", answer->name);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
context_drop(struct store *db, int64_t id)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (ask_exists(db, -1, id) != 0 || (q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}
