/* test_http_lazy.c: a library that is not there is a refusal that says what to install. */
#include <sys/wait.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/http/lazy.h"

/* Linking them costs every verb its start: they may not be loaded before they are used. */
static void
nothing_is_loaded_before_its_use(void **state)
{
	(void)state;
	assert_null(dlopen("libcurl.so.4", RTLD_NOW | RTLD_NOLOAD));
	assert_null(dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_NOLOAD));
}

/* In a root directory without libraries.  Return an exit status. */
static int
without_libraries(void)
{
	char dir[] = "/tmp/bst-lazy-XXXXXX";
	struct refusal r;

	if (mkdtemp(dir) == NULL || chdir(dir) == -1 || chroot(".") == -1)
		return 1;
	if (lazy_curl(&r) != NULL || strcmp(r.code, "library.missing") != 0 ||
	    strstr(r.why, "libcurl4") == NULL)
		return 2;
	if (lazy_mhd(&r) != NULL || strcmp(r.code, "library.missing") != 0 ||
	    strstr(r.why, "libmicrohttpd12") == NULL)
		return 3;
	return 0;
}

static void
missing_library_names_its_package(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("not root: libraries cannot be hidden by a chroot\n");
		skip();
	}
	if ((pid = fork()) == 0)
		_exit(without_libraries());
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(WIFEXITED(status));
	(void)!system("rmdir /tmp/bst-lazy-?????? 2>/dev/null");
}

static void
tables_are_whole_and_the_same(void **state)
{
	const struct lazy_curl *curl = lazy_curl(NULL);
	const struct lazy_mhd *mhd = lazy_mhd(NULL);
	const void *const *p;
	size_t i;

	(void)state;
	assert_non_null(curl);
	assert_non_null(mhd);
	for (p = (const void *const *)curl, i = 0; i < sizeof(*curl) / sizeof(*p); i++)
		assert_non_null(p[i]);
	for (p = (const void *const *)mhd, i = 0; i < sizeof(*mhd) / sizeof(*p); i++)
		assert_non_null(p[i]);
	assert_ptr_equal(lazy_curl(NULL), curl);
	assert_ptr_equal(lazy_mhd(NULL), mhd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_loaded_before_its_use),
	    cmocka_unit_test(missing_library_names_its_package),
	    cmocka_unit_test(tables_are_whole_and_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
