/* observe_machine.c: what /proc and /etc say: load, disks, processes, users. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"

#define NAME_MAX_LEN 32
#define FILE_MAX     1048576
#define PIDS_MAX     65536

static const char LOAD[] =
    "SELECT json_object('uptime_s', ?1, 'load', json_array(CAST(?2 AS REAL), CAST(?3 AS REAL), CAST(?4 AS REAL)),"
    "  'cpus', ?5, 'memory', json_object('total_bytes', ?6 * 1024, 'available_bytes', ?7 * 1024),"
    "  'swap', json_object('total_bytes', ?8 * 1024, 'free_bytes', ?9 * 1024))";

static const char DISK_TABLE[] =
    "CREATE TABLE disk (device, path, type, size, free, inodes, inodes_free, why)";
static const char DISK_ADD[] = "INSERT INTO disk VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
static const char DISKS[] =
    "SELECT json_object('disks', json_group_array(json_object('path', path, 'device', device, 'type', type,"
    "    'size_bytes', size, 'used_bytes', size - free, 'used_percent', iif(size > 0,"
    "      (100 * (size - free) + size - 1) / size, NULL), 'inodes', inodes, 'inodes_free', inodes_free,"
    "    'not_asked', why)), 'more', max(0, (SELECT count(*) FROM disk) - ?1))"
    "  FROM (SELECT * FROM disk ORDER BY path LIMIT ?1)";

static const char PROCESS_TABLE[] = "CREATE TABLE process (pid, uid, name, state, threads, rss)";
static const char PROCESS_ADD[] = "INSERT INTO process VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
static const char USER_TABLE[] = "CREATE TABLE user (name, uid, gid, home, shell, grp)";
static const char USER_ADD[] =
    "INSERT INTO user VALUES (?1, CAST(?2 AS INTEGER), CAST(?3 AS INTEGER), ?4, ?5, '')";
static const char GROUP_ADD[] =
    "UPDATE user SET grp = grp || ' ' || ?1"
    " WHERE instr(',' || ?3 || ',', ',' || name || ',') > 0 OR gid = CAST(?2 AS INTEGER)";

static const char OWNERS[] =
    "SELECT json_object('owner', NULL, 'processes', (SELECT count(*) FROM process), 'owners',"
    "  json_group_array(json_object('user', user, 'uid', uid, 'processes', n, 'threads', t,"
    "    'rss_bytes', rss)), 'more', max(0, (SELECT count(DISTINCT uid) FROM process) - ?1))"
    "  FROM (SELECT p.uid, count(*) AS n, sum(threads) AS t, sum(rss) * 1024 AS rss,"
    "          (SELECT name FROM user AS u WHERE u.uid = p.uid) AS user"
    "          FROM process AS p GROUP BY p.uid ORDER BY rss DESC, p.uid LIMIT ?1)";
static const char OWNED[] =
    "SELECT json_object('owner', ?2, 'processes', (SELECT count(*) FROM process WHERE uid = ?3), 'list',"
    "  json_group_array(json_object('pid', pid, 'name', name, 'state', state, 'threads', threads,"
    "    'rss_bytes', rss * 1024)), 'more',"
    "  max(0, (SELECT count(*) FROM process WHERE uid = ?3) - ?1))"
    "  FROM (SELECT * FROM process WHERE uid = ?3 ORDER BY rss DESC, pid LIMIT ?1)";
static const char OWNER_UNKNOWN[] =
    "SELECT json_object('refused', json_object('code', 'observe.owner_unknown',"
    " 'why', 'no account of this name is in the password file here'))";

static const char USERS[] =
    "SELECT json_object('count', (SELECT count(*) FROM user), 'users', json_group_array(json_object("
    "    'user', name, 'uid', uid, 'home', home, 'shell', shell,"
    "    'logs_in', json(iif(shell GLOB '*/nologin' OR shell GLOB '*/false', 'false', 'true')),"
    "    'groups', (SELECT json_group_array(value) FROM json_each('[\"' || replace(trim(grp), ' ', '\",\"') || '\"]')"
    "                WHERE value <> ''),"
    "    'admin', json(iif(uid = 0 OR ' ' || grp || ' ' GLOB '* sudo *' OR ' ' || grp || ' ' GLOB '* wheel *'"
    "      OR ' ' || grp || ' ' GLOB '* admin *', 'true', 'false')))),"
    "  'more', max(0, (SELECT count(*) FROM user) - ?1))"
    "  FROM (SELECT * FROM user ORDER BY uid, name LIMIT ?1)";

/* Store the file ${path} below the root of ${env} in ${text}, cut at ${size}.  Return 0 or -1. */
static int
read_file(const struct observe_env *env, const char *path, char *text, size_t size)
{
	char full[OBSERVE_PATH_MAX + 64];
	size_t len = 0;
	ssize_t n;
	int fd;

	snprintf(full, sizeof(full), "%s%s", env->root, path);
	if ((fd = open(full, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	while (len + 1 < size && (n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	return len > 0 ? 0 : -1;
}

/* The number behind ${name} in ${text}, at the start of a line; ${otherwise} where there is none.
 */
static int64_t
number_of(const char *text, const char *name, int64_t otherwise)
{
	size_t n = strlen(name);

	for (; text != NULL && *text != '\0'; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, name, n) == 0)
			return strtoll(text + n, NULL, 10);
	}
	return otherwise;
}

/*
 * Load.
 */

static int64_t
count_cpus(const char *stat)
{
	int64_t n = 0;

	for (; stat != NULL; stat = strstr(stat + 1, "\ncpu"))
		n += strncmp(stat, "\ncpu", 4) == 0 && isdigit((unsigned char)stat[4]);
	return n;
}

static int
run_load(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	static char stat[65536], memory[8192];
	char uptime[128], load[128], part[3][32];

	(void)args;
	(void)limits;
	if (read_file(env, "/proc/uptime", uptime, sizeof(uptime)) == -1 ||
	    read_file(env, "/proc/loadavg", load, sizeof(load)) == -1 ||
	    read_file(env, "/proc/stat", stat, sizeof(stat)) == -1 ||
	    read_file(env, "/proc/meminfo", memory, sizeof(memory)) == -1 ||
	    sscanf(load, "%31s %31s %31s", part[0], part[1], part[2]) != 3)
		return answer_unreadable(
		    out, "/proc does not say how this machine is", OBSERVE_MISSING);
	return answer_result(out, LOAD, "itttiiiii", strtoll(uptime, NULL, 10), part[0], part[1],
		   part[2], count_cpus(stat), number_of(memory, "MemTotal:", 0),
		   number_of(memory, "MemAvailable:", -1), number_of(memory, "SwapTotal:", 0),
		   number_of(memory, "SwapFree:", 0)) == -1
		   ? OBSERVE_FAILED
		   : OBSERVE_DONE;
}

/*
 * Disks.
 */

/* Undo the octal escapes of mountinfo. */
static void
unescape(char *text)
{
	char *out = text;

	for (; *text != '\0'; text++)
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
		    text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
			*out++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0');
			text += 3;
		} else {
			*out++ = *text;
		}
	*out = '\0';
}

/* What another machine or program answers for may never answer. */
static const char *
not_asked(const char *type)
{
	static const char *const far[] = {"nfs", "cifs", "smb", "fuse", "9p", "ceph", "afs",
	    "autofs", "glusterfs", "lustre", "ncp", "coda"};
	size_t i;

	for (i = 0; i < sizeof(far) / sizeof(far[0]); i++)
		if (strncmp(type, far[i], strlen(far[i])) == 0)
			return "another machine or program answers for it";
	return NULL;
}

/* Kernel interfaces have no size of their own. */
static int
is_storage(const char *device, const char *type)
{
	return device[0] == '/' || not_asked(type) != NULL || strcmp(type, "tmpfs") == 0 ||
	       strcmp(type, "overlay") == 0 || strcmp(type, "zfs") == 0 ||
	       strcmp(type, "virtiofs") == 0;
}

static int
add_disk(struct answer *out, const char *device, const char *path, const char *type)
{
	const char *why = not_asked(type);
	struct statvfs v;

	if (why == NULL && statvfs(path, &v) == -1)
		why = strerror(errno);
	if (why != NULL)
		return answer_rows(out,
		    "INSERT INTO disk VALUES (?1, ?2, ?3, NULL, NULL, NULL, NULL, ?4)", "tttt",
		    device, path, type, why);
	return answer_rows(out, DISK_ADD, "tttiiiit", device, path, type,
	    (int64_t)(v.f_blocks * v.f_frsize), (int64_t)(v.f_bfree * v.f_frsize),
	    (int64_t)v.f_files, (int64_t)v.f_ffree, why);
}

/* 36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw: proc(5). */
static int
take_mount(struct answer *out, char *line)
{
	char path[4096], type[64], device[1024], *dash = strstr(line, " - ");

	if (dash == NULL || sscanf(line, "%*s %*s %*s %*s %4095s", path) != 1 ||
	    sscanf(dash, " - %63s %1023s", type, device) != 2)
		return 0;
	unescape(path);
	unescape(device);
	return is_storage(device, type) ? add_disk(out, device, path, type) : 0;
}

static int
run_disks(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	char *text = malloc(FILE_MAX), *line, *rest;
	int failed;

	(void)args;
	if (text == NULL || read_file(env, "/proc/self/mountinfo", text, FILE_MAX) == -1) {
		free(text);
		return answer_unreadable(
		    out, "/proc does not say what is mounted", OBSERVE_MISSING);
	}
	failed = answer_rows(out, DISK_TABLE, "");
	for (line = strtok_r(text, "\n", &rest); line != NULL && failed == 0;
	     line = strtok_r(NULL, "\n", &rest))
		failed = take_mount(out, line);
	free(text);
	return failed != 0 || answer_result(out, DISKS, "i", limits->rows_max) == -1
		   ? OBSERVE_FAILED
		   : OBSERVE_DONE;
}

/*
 * Users.
 */

/* Take ${line} apart at its colons.  Return how many parts there are, at most ${most}. */
static int
colons(char *line, char **part, int most)
{
	int n;

	for (n = 0; n < most && line != NULL; n++)
		part[n] = strsep(&line, ":");
	return n;
}

static int
is_number(const char *text)
{
	size_t len = strlen(text);

	return len >= 1 && len <= 10 && strspn(text, "0123456789") == len;
}

/* Group names that stand as they are in a JSON text and between blanks. */
static int
is_name(const char *text)
{
	size_t i;

	for (i = 0; text[i] != '\0'; i++)
		if (!isalnum((unsigned char)text[i]) && strchr("._-$", text[i]) == NULL)
			return 0;
	return i >= 1 && i <= NAME_MAX_LEN;
}

static int
read_users(const struct observe_env *env, struct answer *out)
{
	char *text = malloc(FILE_MAX), *line, *rest, *part[7];
	int failed = text == NULL || read_file(env, "/etc/passwd", text, FILE_MAX) == -1;

	failed = failed || answer_rows(out, USER_TABLE, "") == -1;
	for (line = failed ? NULL : strtok_r(text, "\n", &rest); line != NULL && !failed;
	     line = strtok_r(NULL, "\n", &rest))
		if (line[0] != '#' && colons(line, part, 7) == 7 && is_number(part[2]) &&
		    is_number(part[3]))
			failed = answer_rows(out, USER_ADD, "ttttt", part[0], part[2], part[3],
				     part[5], part[6]) == -1;
	free(text);
	return failed ? -1 : 0;
}

static int
read_groups(const struct observe_env *env, struct answer *out)
{
	char *text = malloc(FILE_MAX), *line, *rest, *part[4];
	int failed = text == NULL || read_file(env, "/etc/group", text, FILE_MAX) == -1;

	for (line = failed ? NULL : strtok_r(text, "\n", &rest); line != NULL && !failed;
	     line = strtok_r(NULL, "\n", &rest))
		if (line[0] != '#' && colons(line, part, 4) == 4 && is_number(part[2]) &&
		    is_name(part[0]))
			failed =
			    answer_rows(out, GROUP_ADD, "ttt", part[0], part[2], part[3]) == -1;
	free(text);
	return failed ? -1 : 0;
}

static int
run_users(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	(void)args;
	if (read_users(env, out) == -1 || read_groups(env, out) == -1)
		return answer_unreadable(
		    out, "the password and group files cannot be read", OBSERVE_MISSING);
	return answer_result(out, USERS, "i", limits->rows_max) == -1 ? OBSERVE_FAILED
								      : OBSERVE_DONE;
}

/*
 * Processes.
 */

static int
check_owner(int nargs, const char *const *args, struct observe_args *canon, struct refusal *refusal)
{
	if (nargs == 1 && (!is_name(args[0]) || args[0][0] == '-'))
		return refusal_set(refusal, "observe.owner",
		    "an account has a name of at most %d letters, digits and . _ - $",
		    NAME_MAX_LEN);
	if (nargs == 1)
		snprintf(canon->v[0], sizeof(canon->v[0]), "%s", args[0]);
	canon->n = nargs;
	return 0;
}

/* What a process calls itself is cut to letters that nothing hides in. */
static void
bound_name(char *name)
{
	size_t i;

	for (i = 0; i < NAME_MAX_LEN && name[i] != '\0'; i++)
		if (!isgraph((unsigned char)name[i]))
			name[i] = '?';
	name[i] = '\0';
}

/* One process.  That it ended meanwhile is no failure; arguments are never read: secrets stand
 * there. */
static int
take_process(const struct observe_env *env, const char *pid, struct answer *out)
{
	char path[64], text[8192], name[64] = "", state[2] = "", *at;

	snprintf(path, sizeof(path), "/proc/%.10s/status", pid);
	if (read_file(env, path, text, sizeof(text)) == -1)
		return 0;
	if (strncmp(text, "Name:\t", 6) == 0)
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text + 6, "\n"), text + 6);
	if ((at = strstr(text, "\nState:\t")) != NULL)
		state[0] = at[8];
	bound_name(name);
	return answer_rows(out, PROCESS_ADD, "iittii", strtoll(pid, NULL, 10),
	    number_of(text, "Uid:", -1), name, state, number_of(text, "Threads:", 0),
	    number_of(text, "VmRSS:", 0));
}

static int
read_processes(const struct observe_env *env, struct answer *out)
{
	char path[OBSERVE_PATH_MAX + 8];
	struct dirent *e;
	DIR *d;
	int n = 0, failed;

	snprintf(path, sizeof(path), "%s/proc", env->root);
	if ((d = opendir(path)) == NULL)
		return -1;
	failed = answer_rows(out, PROCESS_TABLE, "");
	while (failed == 0 && n < PIDS_MAX && (e = readdir(d)) != NULL)
		if (is_number(e->d_name)) {
			failed = take_process(env, e->d_name, out);
			n++;
		}
	closedir(d);
	return failed;
}

/* The uid of ${name}, or -1. */
static int64_t
uid_of(const struct observe_env *env, const char *name)
{
	char *text = malloc(FILE_MAX), *line, *rest, *part[7];
	int64_t uid = -1;

	if (text != NULL && read_file(env, "/etc/passwd", text, FILE_MAX) == 0)
		for (line = strtok_r(text, "\n", &rest); line != NULL && uid == -1;
		     line = strtok_r(NULL, "\n", &rest))
			if (colons(line, part, 7) == 7 && strcmp(part[0], name) == 0 &&
			    is_number(part[2]))
				uid = strtoll(part[2], NULL, 10);
	free(text);
	return uid;
}

static int
run_processes(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out)
{
	int64_t uid;
	int rc;

	if (read_users(env, out) == -1)
		return answer_unreadable(out, "the password file cannot be read", OBSERVE_MISSING);
	if (answer_rows(out, "BEGIN", "") == -1 || read_processes(env, out) != 0)
		return answer_unreadable(out, "/proc does not say what runs", OBSERVE_MISSING);
	if (args->n == 0) {
		rc = answer_result(out, OWNERS, "i", limits->rows_max);
		return rc == -1 ? OBSERVE_FAILED : OBSERVE_DONE;
	}
	if ((uid = uid_of(env, args->v[0])) == -1) {
		answer_result(out, OWNER_UNKNOWN, "");
		return OBSERVE_WRONG;
	}
	rc = answer_result(out, OWNED, "iti", limits->rows_max, args->v[0], uid);
	return rc == -1 ? OBSERVE_FAILED : OBSERVE_DONE;
}

const struct observe_op observe_load = {
    .name = "observe:load",
    .usage = "",
    .summary = "how long this machine is up, its load, memory and swap",
    .check = observe_no_args,
    .run = run_load,
};

const struct observe_op observe_disks = {
    .name = "observe:disks",
    .usage = "",
    .summary = "the file systems that are mounted, and how full they are",
    .check = observe_no_args,
    .run = run_disks,
};

const struct observe_op observe_users = {
    .name = "observe:users",
    .usage = "",
    .summary = "the accounts of the password file: who can log in, who administers",
    .check = observe_no_args,
    .run = run_users,
};

const struct observe_op observe_processes = {
    .name = "observe:processes",
    .usage = "[OWNER]",
    .summary = "how many processes each account runs, or those of one account",
    .args_max = 1,
    .check = check_owner,
    .run = run_processes,
};
