/* test_install.c: the installer in a scratch root, with a stand-in for systemd; the units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/program.h"

#define SCORE_SYSTEM 58 /* tenths: most that systemd-analyze security may find exposed */
#define SCORE_USER   68

static struct driver d;
static struct said said;
static char out[65536], code[1024];
static int ended;

/* Run ${format} in a shell, with everything that it says in ${out}. */
static int __attribute__((format(printf, 1, 2))) sh(const char *format, ...)
{
	char command[4096];
	va_list ap;
	size_t len;
	FILE *f;

	va_start(ap, format);
	assert_in_range(vsnprintf(command, sizeof(command) - 8, format, ap), 1, 4086);
	va_end(ap);
	strcat(command, " 2>&1");
	assert_non_null(f = popen(command, "re"));
	len = fread(out, 1, sizeof(out) - 1, f);
	out[len] = '\0';
	ended = pclose(f);
	return ended = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128;
}

static void
says(const char *text)
{
	if (strstr(out, text) == NULL)
		fail_msg("exit %d, and it does not say '%s': %s", ended, text, out);
}

static void
ends(int want)
{
	if (ended != want)
		fail_msg("exit %d, not %d: %s", ended, want, out);
}

/* A directory with the sources that the installer takes, what is installed, and stand-ins that say
 * that they are. */
static int
begin(void **state)
{
	(void)state;
	driver_make(&d);
	if (sh("cd %s && mkdir -m 755 top from bin box me && chmod 755 . &&"
	       " cp -r $OLDPWD/shell top/shell && cp %s from/bastion &&"
	       " cp top/shell/../shell/install.sh install.sh && cp $OLDPWD/tests/shell/systemctl.sh"
	       " bin/systemctl && chmod 755 bin/systemctl from/bastion && mkdir -m 777 stand &&"
	       " printf '#!/bin/sh\\necho \"stand-in: loginctl $*\" >>\"$STAND_IN/asked\"\\n"
	       "[ ! -e \"$STAND_IN/no-linger\" ]\\n' >bin/loginctl && printf '#!/bin/sh\\n"
	       "echo \"stand-in: sysusers\" >>\"$STAND_IN/asked\"\\n' >bin/systemd-sysusers &&"
	       " chmod 755 bin/*",
		d.dir, program_path()[0] == '/' ? program_path() : "$OLDPWD/build/bastion") != 0)
		fail_msg("%s", out);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve(&d, DRIVER_HOST);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	sh("[ ! -e %s/stand/pid ] || kill -KILL $(cat %s/stand/pid)", d.dir, d.dir);
	driver_drop(&d);
	return 0;
}

/* A code of the Host for this machine, in the environment of this process. */
static void
invite(void)
{
	char host[65];

	assert_int_equal(gethostname(host, sizeof(host)), 0);
	host[strcspn(host, ".")] = '\0';
	driver_does(&said, NULL, "host", "withdraw", host, NULL);
	driver_does(&said, NULL, "host", "invite", host, NULL);
	snprintf(code, sizeof(code), "%.*s", (int)strcspn(said.out, "\n"), said.out);
	setenv("BASTION_PAIR_CODE", code, 1);
}

/* Run the installer as root with ${arguments}; what was asked before is forgotten. */
static int
install(const char *arguments)
{
	sh("rm -f %s/stand/asked %s/stand/environment", d.dir, d.dir);
	sh("PATH=%s/bin:$PATH STAND_IN=%s/stand STAND_IN_ROOT=%s/box"
	   " STAND_IN_UNIT=%s/box/usr/local/lib/systemd/system/bastion.service"
	   " dash %s/top/shell/install.sh --root %s/box %s",
	    d.dir, d.dir, d.dir, d.dir, d.dir, d.dir, arguments);
	unsetenv("BASTION_PAIR_CODE");
	return ended;
}

/* The same as nobody, who has a home of their own. */
static int
install_mine(const char *arguments)
{
	return sh("PATH=%s/bin:$PATH STAND_IN=%s/stand STAND_IN_ROOT="
		  " STAND_IN_UNIT=%s/me/.local/share/systemd/user/bastion.service HOME=%s/me"
		  " XDG_RUNTIME_DIR=%s/me setpriv --reuid 65534 --regid 65534 --clear-groups"
		  " env -u BASTION_STATE -u BASTION_RUN -u XDG_STATE_HOME -u XDG_DATA_HOME"
		  " dash %s/top/shell/install.sh --from %s/from %s",
	    d.dir, d.dir, d.dir, d.dir, d.dir, d.dir, d.dir, arguments);
}

static void
box_sql(const char *sql, const char *want)
{
	sh("BASTION_STATE=%s/box/var/lib/bastion %s/from/bastion sql --csv \"%s\" | tail -n 1 |"
	   " tr -d '\\r'",
	    d.dir, d.dir, sql);
	if (strncmp(out, want, strlen(want)) != 0 || out[strlen(want)] != '\n')
		fail_msg("%s: %s", sql, out);
}

static void
needs_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: another user is needed, and only root is two\n");
	skip();
}

/* A code that is none, or half of one, and arguments that are not known end it before anything is
 * done; neither is shown. */
static void
nothing_is_done_on_half_a_word(void **state)
{
	static const char *const codes[] = {"", "bst_abc", "hello", "bst_a b", "$(id)"};
	char half[300];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		setenv("BASTION_PAIR_CODE", codes[i], 1);
		install("");
		ends(2);
		if (codes[i][0] != '\0')
			assert_null(strstr(out, codes[i]));
	}
	invite();
	snprintf(half, sizeof(half), "%.150s", code);
	setenv("BASTION_PAIR_CODE", half, 1);
	install("");
	ends(2);
	says("cut off");
	install("bst_0123456789");
	ends(2);
	assert_null(strstr(out, "bst_0123456789"));
	install("--networked --local");
	ends(2);
	sh("touch %s/stand/absent", d.dir);
	install("");
	ends(1);
	says("systemd does not answer");
	sh("rm %s/stand/*", d.dir);
	sh("ls %s/box %s/stand", d.dir, d.dir);
	assert_null(strstr(out, "asked"));
	assert_null(strstr(out, "usr"));
}

/* INST-1: root, no flag, fresh → networked.  The first Host is its anchor, and its code is in no
 * argument and no environment of what was started. */
static void
a_fresh_machine_is_networked(void **state)
{
	char path[256];

	(void)state;
	needs_root();
	invite();
	snprintf(path, sizeof(path), "--from %s/from", d.dir);
	/* Where AppArmor knows of user namespaces. */
	sh("mkdir -p %s/box/etc/apparmor.d/abi && touch %s/box/etc/apparmor.d/abi/4.0", d.dir,
	    d.dir);
	install(path);
	ends(0);
	says("runs as a service of this machine");
	says("conductor");
	assert_null(strstr(out, code));
	box_sql("SELECT mode FROM box", "networked");
	box_sql("SELECT host FROM live_anchor", "conductor");
	sh("cat %s/stand/asked %s/stand/environment; cat /proc/$(cat %s/stand/pid)/environ |"
	   " tr '\\0' '\\n'",
	    d.dir, d.dir, d.dir);
	says("stand-in: restart bastion.service");
	says("stand-in: sysusers");
	assert_null(strstr(out, "bst_"));
	assert_null(strstr(out, "PAIR_CODE"));
	sh("cat %s/box/etc/apparmor.d/bastion", d.dir);
	says("profile bastion /usr/local/bin/bastion flags=(unconfined) {");
	says("userns,");
}

/* A service that ends again and again is no success, and how to see why is said. */
static void
a_crash_loop_is_a_failure(void **state)
{
	char path[256];

	(void)state;
	needs_root();
	snprintf(path, sizeof(path), "--from %s/from", d.dir);
	sh("touch %s/stand/crashing", d.dir);
	install(path);
	ends(1);
	says("ends again and again");
	says("journalctl -u bastion");
	sh("rm %s/stand/crashing", d.dir);
}

/* Taken off, it leaves what it knows, and says where. */
static void
what_it_knows_is_kept(void **state)
{
	(void)state;
	needs_root();
	install("--uninstall");
	ends(0);
	says("is kept in");
	says("/box/var/lib/bastion");
	sh("find %s/box/usr %s/box/run %s/box/etc -type f; test -s %s/box/var/lib/bastion/bastion.db",
	    d.dir, d.dir, d.dir, d.dir);
	ends(0);
	assert_null(strstr(out, "bastion.service"));
	assert_null(strstr(out, "bin/bastion"));
	assert_null(strstr(out, "apparmor.d/bastion"));
}

/* INST-2: root over local pairing → stays local; by a flag it does not. */
static void
a_local_pairing_stays_local(void **state)
{
	char path[256];

	(void)state;
	needs_root();
	sh("rm -rf %s/box && mkdir -m 755 %s/box", d.dir, d.dir);
	invite();
	snprintf(path, sizeof(path), "--local --from %s/from", d.dir);
	install(path);
	ends(0);
	box_sql("SELECT mode FROM box", "local");
	snprintf(path, sizeof(path), "--from %s/from", d.dir);
	install(path);
	ends(0);
	box_sql("SELECT mode FROM box", "local");
	box_sql("SELECT count(*) FROM instance", "2");
	/* The same code once more: that is paired already, which is as good. */
	setenv("BASTION_PAIR_CODE", code, 1);
	snprintf(path, sizeof(path), "--networked --from %s/from", d.dir);
	install(path);
	ends(0);
	box_sql("SELECT mode FROM box", "networked");
	install("--uninstall");
	ends(0);
}

/* As a user: a copy that runs by hand is stopped first, whoever else has its number in the file;
 * and whether it runs on after logging out is said. */
static void
a_user_has_a_service_of_their_own(void **state)
{
	(void)state;
	needs_root();
	sh("chown 65534:65534 %s/me; rm -rf %s/stand; mkdir -m 777 %s/stand", d.dir, d.dir, d.dir);
	sh("cd %s/me && HOME=$PWD XDG_RUNTIME_DIR=$PWD setpriv --reuid 65534 --regid 65534"
	   " --clear-groups env -u BASTION_STATE -u BASTION_RUN -u XDG_STATE_HOME sh -c '%s/from/bastion"
	   " serve >by-hand 2>&1 & echo $! >by-hand.pid; until grep -q serving by-hand; do sleep 0.1;"
	   " done; echo %d >.local/state/bastion/bastion.lock'",
	    d.dir, d.dir, (int)getpid());
	ends(0);
	install_mine("");
	ends(0);
	says("is stopped first");
	says("runs as a service of yours");
	says("lingering is on");
	sh("kill -0 $(cat %s/me/by-hand.pid)", d.dir);
	assert_int_not_equal(ended, 0);
	sh("touch %s/stand/no-linger", d.dir);
	install_mine("");
	ends(0);
	assert_null(strstr(out, "is stopped first"));
	says("loginctl enable-linger");
	install_mine("--networked");
	ends(2);
	install_mine("--uninstall");
	ends(0);
	says("/me/.local/state/bastion");
}

/* Units that systemd takes, and that it finds no more exposed than the README says. */
static void
units_are_sound(void **state)
{
	static const struct {
		const char *unit;
		int most;
	} units[] = {
	    {"bastion", SCORE_SYSTEM}, {"bastion-host", SCORE_USER}, {"bastion-user", SCORE_USER}};
	const char *at;
	double score;
	size_t i;

	(void)state;
	if (sh("command -v systemd-analyze") != 0) {
		print_message("skipped: there is no systemd-analyze here\n");
		skip();
	}
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		sh("sed 's,@BINDIR@/bastion,%s/from/bastion,' shell/%s.service >%s/%s.service &&"
		   " systemd-analyze verify --man=no %s/%s.service",
		    d.dir, units[i].unit, d.dir, units[i].unit, d.dir, units[i].unit);
		ends(0);
		assert_null(strstr(out, units[i].unit));
		sh("systemd-analyze security --offline=true %s/%s.service | tail -n 1", d.dir,
		    units[i].unit);
		assert_non_null(at = strstr(out, "service: "));
		score = strtod(at + strlen("service: "), NULL);
		assert_in_range((int)(score * 10 + 0.5), 1, units[i].most);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_done_on_half_a_word),
	    cmocka_unit_test(a_fresh_machine_is_networked),
	    cmocka_unit_test(a_crash_loop_is_a_failure),
	    cmocka_unit_test(what_it_knows_is_kept),
	    cmocka_unit_test(a_local_pairing_stays_local),
	    cmocka_unit_test(a_user_has_a_service_of_their_own),
	    cmocka_unit_test(units_are_sound),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
