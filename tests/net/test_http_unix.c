/* test_http_unix.c: where a listening socket may appear, and whose socket is removed. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/http/unixsock.h"

static char dir[32], path[64];

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/bst-unix-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/s", dir);
	return 0;
}

static unsigned
entries(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 2;
}

static int
teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static int
dial(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	strcpy(sun.sun_path, path);
	r = connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1 ? errno : 0;
	close(fd);
	return r;
}

/* A listening socket of someone else's at ${at}. */
static int
listen_plain(const char *at)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", at);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 5), 0);
	return fd;
}

static const char *
serve(struct unixsock *s, const char *at)
{
	static struct refusal r;

	if (unixsock_bind(s, at, 0600, &r) == -1 || unixsock_publish(s, 5, &r) == -1)
		return r.code;
	return "ok";
}

/* PT-01: after start the socket is 0600 in a directory of 0700; RF-33: whatever the umask. */
static void
socket_is_private_from_the_start(void **state)
{
	struct unixsock s;
	struct refusal r;
	struct stat st;
	char hidden[80];
	mode_t old = umask(0);

	(void)state;
	assert_int_equal(unixsock_bind(&s, path, 0600, &r), 0);
	snprintf(hidden, sizeof(hidden), "%s/%s", dir, s.hidden);
	assert_int_equal(lstat(hidden, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	assert_int_equal(unixsock_publish(&s, 5, &r), 0);
	assert_int_equal(umask(old), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	assert_int_equal(fcntl(s.fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(s.fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(dial(), 0);
	unixsock_close(&s);
	assert_int_equal(entries(), 0);
}

static void
wider_mode_is_set_when_asked(void **state)
{
	struct unixsock s;
	struct refusal r;
	struct stat st;

	(void)state;
	assert_int_equal(chmod(dir, 0711), 0);
	assert_int_equal(unixsock_bind(&s, path, 0666, &r), 0);
	assert_int_equal(unixsock_publish(&s, 5, &r), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0666);
	unixsock_close(&s);
}

/* PT-02, SQ-2: 104 bytes are refused, 103 are served. */
static void
path_of_104_is_refused(void **state)
{
	char at[128];
	struct unixsock s;

	(void)state;
	snprintf(at, sizeof(at), "%s/%0*d", dir, (int)(104 - strlen(dir) - 1), 0);
	assert_int_equal(strlen(at), 104);
	assert_string_equal(serve(&s, at), "socket.path");
	at[103] = '\0';
	assert_string_equal(serve(&s, at), "ok");
	assert_int_equal(access(at, F_OK), 0);
	unixsock_close(&s);
	assert_int_equal(entries(), 0);
	assert_string_equal(serve(&s, "relative"), "socket.path");
	assert_string_equal(serve(&s, ""), "socket.path");
	assert_string_equal(serve(&s, "/tmp/"), "socket.path");
}

/* PT-04: a socket that a crash left behind is no obstacle. */
static void
stale_socket_is_replaced(void **state)
{
	struct unixsock s;

	(void)state;
	close(listen_plain(path));
	assert_int_equal(dial(), ECONNREFUSED);
	assert_string_equal(serve(&s, path), "ok");
	assert_int_equal(dial(), 0);
	unixsock_close(&s);
}

static void
living_socket_is_kept(void **state)
{
	struct unixsock s;
	int fd = listen_plain(path);

	(void)state;
	assert_string_equal(serve(&s, path), "socket.taken");
	assert_int_equal(dial(), 0);
	assert_int_equal(entries(), 1);
	close(fd);
}

static void
other_file_is_kept(void **state)
{
	struct unixsock s;

	(void)state;
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_string_equal(serve(&s, path), "socket.taken");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/nowhere", path), 0);
	assert_string_equal(serve(&s, path), "socket.taken");
	assert_int_equal(entries(), 1);
}

/* PT-05: a directory that others may enter is never used as it is. */
static void
open_directory_is_refused(void **state)
{
	struct unixsock s;

	(void)state;
	assert_int_equal(chmod(dir, 0777), 0);
	assert_string_equal(serve(&s, path), "socket.directory");
	assert_int_equal(chmod(dir, 0750), 0);
	assert_string_equal(serve(&s, path), "socket.directory");
	assert_int_equal(entries(), 0);
}

/* PT-06: nor one of another user, nor a symbolic link. */
static void
foreign_directory_is_refused(void **state)
{
	char link[64], at[80];
	struct unixsock s;

	(void)state;
	snprintf(link, sizeof(link), "%s-link", dir);
	snprintf(at, sizeof(at), "%s/s", link);
	assert_int_equal(symlink(dir, link), 0);
	assert_string_equal(serve(&s, at), "socket.directory");
	unlink(link);
	if (geteuid() != 0) {
		print_message("not root: a directory of another user cannot be made here\n");
		return;
	}
	assert_int_equal(chown(dir, 65534, 65534), 0);
	assert_string_equal(serve(&s, path), "socket.directory");
	assert_int_equal(entries(), 0);
}

/* PT-07: replaced between bind and check: rolled back, and what is not ours stays. */
static void
replaced_socket_is_refused(void **state)
{
	char hidden[80];
	struct unixsock s;
	struct refusal r;
	int fd;

	(void)state;
	assert_int_equal(unixsock_bind(&s, path, 0600, &r), 0);
	snprintf(hidden, sizeof(hidden), "%s/%s", dir, s.hidden);
	assert_int_equal(unlink(hidden), 0);
	fd = listen_plain(hidden);
	assert_int_equal(unixsock_publish(&s, 5, &r), -1);
	assert_string_equal(r.code, "socket.replaced");
	assert_int_equal(s.fd, -1);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(hidden, F_OK), 0);
	unlink(hidden);
	close(fd);
}

/* PT-10: closing leaves the socket of a successor alone. */
static void
close_keeps_a_successor(void **state)
{
	struct unixsock old, new;

	(void)state;
	assert_string_equal(serve(&old, path), "ok");
	assert_int_equal(unlink(path), 0);
	assert_string_equal(serve(&new, path), "ok");
	unixsock_close(&old);
	assert_int_equal(dial(), 0);
	unixsock_close(&new);
	assert_int_equal(entries(), 0);
	unixsock_close(&new);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(socket_is_private_from_the_start),
	    TEST(wider_mode_is_set_when_asked),
	    TEST(path_of_104_is_refused),
	    TEST(stale_socket_is_replaced),
	    TEST(living_socket_is_kept),
	    TEST(other_file_is_kept),
	    TEST(open_directory_is_refused),
	    TEST(foreign_directory_is_refused),
	    TEST(replaced_socket_is_refused),
	    TEST(close_keeps_a_successor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
