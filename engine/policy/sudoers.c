/* sudoers.c: the left side of the rules of sudo. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/policy/sudoers.h"

#define FILE_MAX (1u << 20)

struct reading {
	struct sudoers *s;
	int root; /* -1: includes are not followed */
	unsigned deep;
};

static void read_text(struct reading *r, char *text);

static void
add(struct sudoers *s, const char *name, size_t len)
{
	if (len == 0 || s->count == SUDOERS_NAMES ||
	    (s->names[s->count] = strndup(name, len)) == NULL) {
		s->partly = true;
		return;
	}
	s->count++;
}

static void
read_file(struct reading *r, const char *path)
{
	size_t len;
	char *text;

	if (r->root == -1 || r->deep == SUDOERS_DEEP || r->s->files == SUDOERS_FILES) {
		r->s->partly = true;
		return;
	}
	r->s->files++;
	if ((text = owner_read(r->root, path + strspn(path, "/"), FILE_MAX, &len)) == NULL ||
	    strlen(text) != len) {
		r->s->partly = true;
		free(text);
		return;
	}
	r->deep++;
	read_text(r, text);
	r->deep--;
	free(text);
}

static void
read_directory(struct reading *r, const char *path)
{
	char file[512];
	struct dirent *entry;
	DIR *dir = NULL;
	int fd = -1;

	if (r->root != -1)
		fd = openat(r->root, path + strspn(path, "/"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1 || (dir = fdopendir(fd)) == NULL) {
		/* A directory that is not there holds no rules. */
		r->s->partly = r->s->partly || r->root == -1 || errno != ENOENT;
		if (fd != -1)
			close(fd);
		return;
	}
	while ((entry = readdir(dir)) != NULL) {
		/* sudo skips what a package manager or an editor left there. */
		if (strchr(entry->d_name, '.') != NULL ||
		    entry->d_name[strlen(entry->d_name) - 1] == '~')
			continue;
		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) < (int)sizeof(file))
			read_file(r, file);
		else
			r->s->partly = true;
	}
	closedir(dir);
}

/* @include, @includedir, and the same with # as it was written once. */
static bool
read_include(struct reading *r, char *line)
{
	bool directory = strncmp(line + 1, "includedir", 10) == 0;
	char *path = line + (directory ? 11 : 8);
	size_t n;

	if ((line[0] != '@' && line[0] != '#') || strncmp(line + 1, "include", 7) != 0 ||
	    (*path != ' ' && *path != '\t'))
		return false;
	path += strspn(path, " \t\"");
	n = strcspn(path, " \t\"");
	path[n] = '\0';
	if (path[0] != '/' || strchr(path, '%') != NULL)
		r->s->partly = true;
	else if (directory)
		read_directory(r, path);
	else
		read_file(r, path);
	return true;
}

/* The names before the hosts: "bob, %wheel ALL = ...". */
static void
read_rule(struct reading *r, const char *line)
{
	size_t n;

	if (strchr(line, '=') == NULL) {
		r->s->partly = true;
		return;
	}
	for (;;) {
		line += strspn(line, " \t");
		n = strcspn(line, " \t,=");
		/* Exceptions, netgroups, groups of plugins, quoted names. */
		if (n == 0 || strchr("!+\"", line[0]) != NULL || strncmp(line, "%:", 2) == 0 ||
		    memchr(line, '\\', n) != NULL)
			r->s->partly = true;
		else
			add(r->s, line, n);
		line += n;
		line += strspn(line, " \t");
		if (*line != ',')
			return;
		line++;
	}
}

static void
read_line(struct reading *r, char *line)
{
	char *comment;

	line += strspn(line, " \t");
	if (*line == '\0' || read_include(r, line))
		return;
	/* "#1000" names an account by its number. */
	if (*line == '#' && (line[1] < '0' || line[1] > '9'))
		return;
	for (comment = line + 1; *line != '\0' && *comment != '\0'; comment++)
		if (*comment == '#' && (comment[1] < '0' || comment[1] > '9'))
			*comment = '\0', comment--;
	if (strncmp(line, "Defaults", 8) == 0 || strncmp(line, "Host_Alias", 10) == 0 ||
	    strncmp(line, "Cmnd_Alias", 10) == 0 || strncmp(line, "Cmd_Alias", 9) == 0 ||
	    strncmp(line, "Runas_Alias", 11) == 0)
		return;
	if (strncmp(line, "User_Alias", 10) == 0)
		r->s->partly = true;
	else
		read_rule(r, line);
}

static void
read_text(struct reading *r, char *text)
{
	char *line, *end, *join;

	/* A backslash continues a line. */
	for (join = text; (join = strstr(join, "\\\n")) != NULL;)
		join[0] = join[1] = ' ';
	for (line = text; line != NULL && *line != '\0'; line = end == NULL ? NULL : end + 1) {
		if ((end = strchr(line, '\n')) != NULL)
			*end = '\0';
		read_line(r, line);
	}
}

void
sudoers_text(struct sudoers *s, const char *text)
{
	struct reading r = {s, -1, 0};
	char *copy = strdup(text);

	if (copy == NULL) {
		s->partly = true;
		return;
	}
	read_text(&r, copy);
	free(copy);
}

int
sudoers_read(int root, struct sudoers *s)
{
	struct reading r = {s, root, 0};

	if (faccessat(root, "etc/sudoers", F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
		return 0;
	read_file(&r, "/etc/sudoers");
	return s->partly ? -1 : 0;
}

enum owner_fact
sudoers_user(const struct sudoers *s, const char *name, uint32_t uid)
{
	char number[16];
	size_t i;

	snprintf(number, sizeof(number), "#%u", uid);
	for (i = 0; i < s->count; i++)
		if (strcmp(s->names[i], "ALL") == 0 || strcmp(s->names[i], number) == 0 ||
		    (name[0] != '\0' && strcmp(s->names[i], name) == 0))
			return FACT_YES;
	return FACT_NO;
}

bool
sudoers_group(const struct sudoers *s, const char *name, uint32_t gid)
{
	char number[16];
	size_t i;

	snprintf(number, sizeof(number), "%%#%u", gid);
	for (i = 0; i < s->count; i++)
		if (s->names[i][0] == '%' &&
		    (strcmp(s->names[i], number) == 0 || strcmp(s->names[i] + 1, name) == 0))
			return true;
	return false;
}

void
sudoers_free(struct sudoers *s)
{
	while (s->count > 0)
		free(s->names[--s->count]);
}
