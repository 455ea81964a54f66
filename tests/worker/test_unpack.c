/* test_unpack.c: what a bundle may bring, and what it may not, with real git. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/worker/unpack.h"
#include "tests/program.h"
#include "tests/slower.h"

static char dir[64], *program;

/*
 * Say ${script} to a shell in the directory of the test, where unpack NAME BUNDLE [SIZE [SHA256]]
 * has it put to place/NAME, with what is said in err.  Return its exit code.
 */
static int
sh(const char *script)
{
	static const char unpack[] =
	    "set -e; export LC_ALL=C; cd %s; unpack() {"
	    "  local s h; s=${3:-$(stat -c %%s $2)}; h=${4:-$(sha256sum <$2 | cut -c-64)};"
	    "  (cd ${IN:-place}; exec %s unpack ${FOLDER:-$PWD} $1 $s $h ${STALL:-20000} 60000"
	    "     ${MOST:-100000000}) <$2 >out 2>err; };"
	    /* "!" alone would not end it. */
	    " no() { if \"$@\"; then echo went: \"$*\" >&2; exit 1; fi; };"
	    /* An object that git itself would not make: raw TYPE, with its bytes on standard input.
	     */
	    " raw() { git -C src hash-object -t $1 -w --stdin --literally; };"
	    " bin() { printf \"$(echo $1 | sed 's/../\\\\x&/g')\"; };"
	    /* bundle TREE FILE: a bundle of one commit. */
	    " bundle() { c=$(git -C src commit-tree $1 -m x); git -C src update-ref refs/heads/evil $c;"
	    "  git -C src symbolic-ref HEAD refs/heads/evil; git -C src bundle create -q ../$2 --all;"
	    "  git -C src symbolic-ref HEAD refs/heads/main; git -C src update-ref -d refs/heads/evil; };"
	    " %s";
	char text[8192], command[128];
	FILE *f;
	int status;

	snprintf(command, sizeof(command), "%s/script", dir);
	assert_non_null(f = fopen(command, "we"));
	assert_true(
	    (size_t)snprintf(text, sizeof(text), unpack, dir, program, script) < sizeof(text));
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	snprintf(command, sizeof(command), "exec bash %s/script", dir);
	assert_non_null(f = popen(command, "we"));
	status = pclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
make(void **state)
{
	(void)state;
	strcpy(dir, "/var/tmp/bastion-unpack-XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_non_null(program = realpath(program_path(), NULL));
	assert_int_equal(
	    sh("mkdir place out.d; git init -q -b main src; cd src; git config user.email a@b;"
	       " git config user.name n; echo one >f; mkdir d; echo two >d/g; git add .;"
	       " git commit -qm one; git bundle create -q ../good --all"),
	    0);
	return 0;
}

static int
drop(void **state)
{
	char command[96];
	FILE *f;

	(void)state;
	snprintf(command, sizeof(command), "exec rm -rf %s", dir);
	assert_non_null(f = popen(command, "we"));
	assert_int_equal(pclose(f), 0);
	free(program);
	return 0;
}

/* BU-01, RF-59: there and the same; a second one takes the place of the first, and nothing is left
 * beside it. */
static void
there_and_replaced(void **state)
{
	(void)state;
	assert_int_equal(
	    sh("unpack proj good; test \"$(cat out)\" = $PWD/place/proj;"
	       " cmp src/d/g place/proj/d/g; git -C place/proj fsck --strict 2>/dev/null;"
	       " test \"$(git -C place/proj rev-parse HEAD)\" = $(git -C src rev-parse HEAD);"
	       " test \"$(ls -A place)\" = proj"),
	    0);
	assert_int_equal(
	    sh("echo changed >place/proj/f; cd src; echo three >f; git commit -qam two;"
	       " git bundle create -q ../second --all; cd ..; unpack proj second;"
	       " test $(cat place/proj/f) = three; test \"$(ls -A place)\" = proj;"
	       " grep -qx $(sha256sum <second | cut -c-64) place/proj/.git/bastion-bundle"),
	    0);
}

/* BU-11, BU-12, RF-58: other bytes, fewer, more, or none for too long: what was there stays. */
static void
other_bytes(void **state)
{
	(void)state;
	assert_int_equal(sh("unpack proj good; no unpack proj good '' $(printf %064d 0);"
			    " grep -q 'bundle.digest' err; test \"$(ls -A place)\" = proj"),
	    0);
	assert_int_equal(sh("no unpack proj good 10; grep -q 'more came' err;"
			    " no unpack proj good 1000000; grep -q 'bytes came' err;"
			    " test \"$(ls -A place)\" = proj; test -f place/proj/f"),
	    0);
	assert_int_equal(sh("mkfifo pipe; exec 9<>pipe; STALL=200; no unpack late pipe 5 x;"
			    " grep -q 'nothing came for 200 ms' err; test ! -e place/late"),
	    0);
	assert_int_equal(sh("head -c 3000 /dev/urandom >noise; no unpack noise noise;"
			    " no unpack noise script; test \"$(ls -A place)\" = proj"),
	    0);
	/* One that stands on commits that are not in it. */
	assert_int_equal(sh("cd src; echo 4 >f; git commit -qam four; git bundle create -q ../part"
			    " HEAD~1..main; cd ..; no unpack part part; test ! -e place/part"),
	    0);
}

/* Names and places that lead elsewhere. */
static void
places_that_lead_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(
	    sh("for n in . .. ../x a/b .git -x '' \"$(printf %0129d 0)\"; do"
	       "  no unpack \"$n\" good || exit 1; done; test \"$(ls -A out.d)\" = ''"),
	    0);
	assert_int_equal(
	    sh("ln -s ../out.d place/link; no unpack link good; grep -q 'no bundle brought' err;"
	       " test \"$(ls -A out.d)\" = ''; rm place/link"),
	    0);
	assert_int_equal(sh("ln -s place way; IN=way FOLDER=$PWD/way; no unpack q good;"
			    " grep -q 'a link is in the way' err; test ! -e place/q; rm way"),
	    0);
	assert_int_equal(sh("mkdir place/own; echo mine >place/own/f; no unpack own good;"
			    " grep -q 'no bundle brought' err; test $(cat place/own/f) = mine"),
	    0);
	assert_int_equal(sh("ln -s ../out.d place/.s.bundle; no unpack s good;"
			    " test \"$(ls -A out.d)\" = ''; rm place/.s.bundle"),
	    0);
	/* What somebody who was killed left is no matter. */
	assert_int_equal(sh("mkdir -m 700 place/.k.bundle; echo old >place/.k.bundle/bundle;"
			    " unpack k good; test -f place/k/f; test ! -e place/.k.bundle"),
	    0);
}

/* BU-14: paths in a tree that lead out of it or into .git; links; what is named to be run. */
static void
trees_of_an_attacker(void **state)
{
	(void)state;
	assert_int_equal(
	    sh("b=$(echo bad | raw blob);"
	       " for p in .. .git ../x /tmp/bastion-escaped .git/hooks/post-checkout a/../../x; do"
	       "  t=$( (printf '100755 %s\\0' $p; bin $b) | raw tree); bundle $t evil;"
	       "  no unpack evil evil || exit 1; test ! -e place/evil || exit 1; done;"
	       " s=$( (printf '100755 post-checkout\\0'; bin $b) | raw tree);"
	       " for p in .. .git .GIT git~1; do"
	       "  t=$( (printf '40000 %s\\0' $p; bin $s) | raw tree); bundle $t evil;"
	       "  no unpack evil evil || exit 1; test ! -e place/evil || exit 1; done;"
	       " test ! -e /tmp/bastion-escaped; test ! -e x; test ! -e place/x"),
	    0);
	/* A link, and a file behind it. */
	assert_int_equal(
	    sh("b=$(echo bad | raw blob); l=$(printf ../../out.d | raw blob);"
	       " s=$( (printf '100644 f\\0'; bin $b) | raw tree);"
	       " t=$( (printf '120000 a\\0'; bin $l; printf '40000 a\\0'; bin $s) | raw tree);"
	       " bundle $t evil; unpack evil evil || true; test \"$(ls -A out.d)\" = ''"),
	    0);
	/* Hooks and filters of the user's own configuration, for what the repository names. */
	assert_int_equal(
	    sh("mkdir -p home/t/hooks; printf '#!/bin/sh\\ntouch %s/ran\\n' $PWD >home/t/hooks/post-checkout;"
	       " chmod +x home/t/hooks/post-checkout;"
	       " printf '[init]\\ntemplateDir=%s\\n[filter \"x\"]\\nsmudge=touch %s/ran\\nrequired=true\\n'"
	       "  $PWD/home/t $PWD >home/.gitconfig;"
	       " cd src; echo '* filter=x' >.gitattributes; git add .; git commit -qm f;"
	       " git bundle create -q ../attr --all; cd ..; export HOME=$PWD/home GIT_TEMPLATE_DIR=$PWD/home/t;"
	       " unpack attr attr; test -f place/attr/.gitattributes; test ! -e ran;"
	       " test ! -e place/attr/.git/hooks/post-checkout"),
	    0);
}

/* A small bundle of much is not unpacked. */
static void
too_much(void **state)
{
	(void)state;
	assert_int_equal(
	    sh("cd src; git checkout -q -b much; head -c 30000000 /dev/zero >zero; git add zero;"
	       " git commit -qm z; git bundle create -q ../much --all; cd ..;"
	       " test $(stat -c %s much) -lt 200000; MOST=20000000; no unpack much much;"
	       " grep -q 'would take more' err; test ! -e place/much;"
	       " test \"$(ls -A place | grep bundle)\" = ''"),
	    0);
}

/* A git that does what it should not reaches nothing but the folder beside the place. */
static void
a_git_that_is_wrong(void **state)
{
	char git[96], folder[96];
	struct unpack u = {.folder = folder,
	    .name = "wrong",
	    .size = 1,
	    .sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
	    .stall_ms = 20000,
	    .git_ms = 1000 * SLOWER, /* where it could do what it should, it sleeps so long */
	    .unpacked = 1000000,
	    .git = git};
	struct refusal r = {.code = ""};
	int status, in[2];
	pid_t pid;

	(void)state;
	assert_int_equal(
	    sh("printf '#!/bin/sh\\ncd %s\\ntouch wrong place/wrong.2 2>/dev/null\\n"
	       "touch place/.wrong.bundle/right && sleep 600\\n' $PWD >git; chmod +x git"),
	    0);
	snprintf(git, sizeof(git), "%s/git", dir);
	snprintf(folder, sizeof(folder), "%s/place", dir);
	assert_int_equal(pipe(in), 0);
	assert_int_equal(write(in[1], "x", 1), 1);
	close(in[1]);
	if ((pid = fork()) == 0)
		_exit(chdir(folder) == 0 && unpack_run(&u, in[0], &r) == -1 &&
			      strstr(r.why, "took longer") != NULL
			  ? 0
			  : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(in[0]);
	assert_int_equal(status, 0);
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 2) {
		print_message("skipped: no Landlock here\n");
		skip();
	}
	assert_int_equal(
	    sh("test ! -e wrong; test ! -e place/wrong.2; test -z \"$(ls -A place)\""), 0);
}

/* RF-59: killed at any moment of it, there is one whole copy, the old or the new. */
static void
killed(void **state)
{
	(void)state;
	assert_int_equal(
	    sh("exec 2>killed.err; unpack proj good; echo three >src/f; git -C src commit -qam two;"
	       " git -C src bundle create -q ../second --all; b=second;"
	       " for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do"
	       "  unpack proj $b & p=$!; sleep 0.$((i / 10))$((i % 10));"
	       "  kill -9 $(pgrep -P $p) 2>/dev/null || true; wait $p || true;"
	       "  git -C place/proj diff --quiet HEAD; git -C place/proj fsck 2>/dev/null;"
	       "  case $b in good) b=second;; *) b=good;; esac; done;"
	       " unpack proj good; test $(cat place/proj/f) = one;"
	       " test \"$(ls -A place)\" = proj"),
	    0);
}

/* Told to end, it leaves nothing. */
static void
told_to_end(void **state)
{
	(void)state;
	assert_int_equal(sh("mkfifo way.p; exec 9<>way.p; unpack gone way.p 5 x & p=$!;"
			    " until test -e place/.gone.bundle/bundle; do sleep 0.05; done;"
			    " kill $(pgrep -P $p -f ' unpack ' || echo $p); no wait $p;"
			    " test ! -e place/.gone.bundle"),
	    0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(there_and_replaced, make, drop),
	    cmocka_unit_test_setup_teardown(other_bytes, make, drop),
	    cmocka_unit_test_setup_teardown(places_that_lead_elsewhere, make, drop),
	    cmocka_unit_test_setup_teardown(trees_of_an_attacker, make, drop),
	    cmocka_unit_test_setup_teardown(too_much, make, drop),
	    cmocka_unit_test_setup_teardown(a_git_that_is_wrong, make, drop),
	    cmocka_unit_test_setup_teardown(killed, make, drop),
	    cmocka_unit_test_setup_teardown(told_to_end, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
