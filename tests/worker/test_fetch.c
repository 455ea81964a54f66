/* test_fetch.c: git fetches from where it was judged that it may, by real git from a server in
 * another network namespace. */
#include "tests/worker/acting.h"

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <sched.h>
#include <signal.h>

#include "tests/netns.h"

#define GIT  "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main"
#define NAME "git.example.test"
#define PIN  NAME ":8443:" NETNS_SITE

static bool isolated;

/* Names are those of a file of the test's own, in a mount namespace of its own. */
static bool
hosts_are(const char *path)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0 &&
	       mount(at("nsswitch"), "/etc/nsswitch.conf", NULL, MS_BIND, NULL) == 0;
}

static void
serve(const char *script, const char *port)
{
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	if (netns_fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 1);
		execlp("python3", "python3", script, NETNS_SITE, port, at("site"), at("site.pem"),
		    (char *)NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static void
publish(void)
{
	shell("cd %s/site/repo.git && git update-server-info", root);
}

static int
set_up(void **state)
{
	char hosts[128];

	if (!(isolated = netns_enter()))
		return 0;
	if (recorded_set_up(state) != 0)
		return -1;
	snprintf(hosts, sizeof(hosts), "%s", at("hosts"));
	ask_write(hosts,
	    "127.0.0.1 localhost\n" NETNS_SITE " git.example.test moved.example.test\n" NETNS_SITE
	    " two.example.test\n10.9.0.2 two.example.test\n",
	    0644);
	ask_write(at("nsswitch"), "hosts: files\n", 0644);
	if (!hosts_are(hosts)) {
		isolated = false;
		return recorded_tear_down(state);
	}
	shell(
	    "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out ca.pem -days 2 -subj /CN=site"
	    " -addext subjectAltName=DNS:git.example.test,DNS:two.example.test,IP:" NETNS_SITE
	    " 2>log && cat k ca.pem >site.pem",
	    root);
	shell(
	    "mkdir -p %s/site && cd %s/site && " GIT
	    " init -q work && cd work && echo one >f && " GIT " add f && " GIT
	    " commit -qm 1 && git clone -q --bare . ../repo.git && git remote add origin ../repo.git",
	    root, root);
	publish();
	/* What leads elsewhere, and what asks for a password. */
	ask_write(at("lead.py"),
	    "import http.server, ssl, sys\n"
	    "class H(http.server.BaseHTTPRequestHandler):\n"
	    "    def do_GET(self):\n"
	    "        if 'secret' in self.path:\n"
	    "            self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm=x')\n"
	    "        else:\n"
	    "            self.send_response(302)\n"
	    "            self.send_header('Location', 'https://" NAME ":8443' + self.path)\n"
	    "        self.send_header('Content-Length', '0'); self.end_headers()\n"
	    "    def log_message(self, *a): pass\n"
	    "s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)\n"
	    "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[4])\n"
	    "s.socket = c.wrap_socket(s.socket, server_side=True)\n"
	    "print('ready', flush=True)\n"
	    "s.serve_forever()\n",
	    0644);
	serve("tests/egress/origin.py", "8443");
	serve(at("lead.py"), "8444");
	return 0;
}

static int
tear_down(void **state)
{
	return isolated ? recorded_tear_down(state) : 0;
}

/* A tree that is from ${url}, trusted as far as the test's authority goes. */
static void
tree(const char *url)
{
	if (!isolated) {
		print_message("skipped: no network or mount namespace for us here\n");
		skip();
	}
	shell("rm -rf %s/t && mkdir -m 755 %s/t && cd %s/t && " GIT
	      " init -q && git remote add origin '%s' && chmod 755 .git",
	    root, root, root, url);
	snprintf(env.trust, sizeof(env.trust), "%s", at("ca.pem"));
	acting_pin = "";
}

static const char *
fetched(const char *ref)
{
	static char line[128];
	FILE *f;

	shell("cd %s/t && (git rev-parse -q --verify refs/remotes/origin/%s || echo none) >../head",
	    root, ref);
	assert_non_null(f = fopen(at("head"), "re"));
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* It says where it is from and changes nothing; held to that, it looks, and then it fetches. */
static void
branches_are_fetched(void **state)
{
	static struct ask a;
	char first[128];

	(void)state;
	tree("https://" NAME ":8443/repo.git");
	act(&a, "git:fetch", at("t"), NULL, 0, 0);
	assert_string_equal(a.result, "{\"destination\":{\"host\":\"" NAME
				      "\",\"port\":8443,\"addresses\":[\"" NETNS_SITE "\"]}}");
	assert_string_equal(fetched("main"), "none");
	acting_pin = PIN;
	act(&a, "git:fetch", at("t"), NULL, 1, 0);
	ask_is(a.result,
	    "SELECT (?1 ->> '$.from') || (?1 ->> '$.refs[0].ref') || (?1 ->> '$.more')",
	    NAME ":8443main0");
	ask_is(a.result, "SELECT json_type(?1, '$.refs[0].before')", "null");
	assert_string_equal(fetched("main"), "none");
	act(&a, "git:fetch", at("t"), NULL, 0, 0);
	snprintf(first, sizeof(first), "%s", fetched("main"));
	ask_is(a.result, "SELECT ?1 ->> '$.refs[0].after'", first);
	shell("cd %s/t && git checkout -q --detach origin/main", root);
	/* Nothing is new. */
	act(&a, "git:fetch", at("t"), NAME ":8443", 0, 0);
	ask_is(a.result, "SELECT ?1 ->> '$.refs'", "[]");
	shell("cd %s/site/work && echo two >f && " GIT " commit -qam 2 && git push -q origin main",
	    root);
	publish();
	act(&a, "git:fetch", at("t"), NAME ":8443", 1, 0);
	ask_is(a.result, "SELECT ?1 ->> '$.refs[0].before'", first);
	assert_string_equal(fetched("main"), first);
	act(&a, "git:fetch", at("t"), NAME ":8443", 0, 0);
	ask_is(a.result, "SELECT ?1 ->> '$.refs[0].after'", fetched("main"));
	assert_string_not_equal(fetched("main"), first);
	/* What was fetched can be checked out. */
	act(&a, "tree:checkout", at("t"), "origin/main", 0, 0);
	assert_string_equal(content(at("t/f")), "two\n");
}

/* DST-2: all that a name leads to is told, to be judged; only what was judged is dialled, whatever
 * the name leads to by then. */
static void
only_the_pinned_address_is_dialled(void **state)
{
	static struct ask a;

	(void)state;
	tree("https://two.example.test:8443/repo.git");
	act(&a, "git:fetch", at("t"), NULL, 0, 0);
	ask_is(a.result, "SELECT json_array_length(?1, '$.destination.addresses')", "2");
	/* The name leads to the site; the pin to where nobody listens. */
	acting_pin = "two.example.test:8443:" NETNS_OTHER;
	refused(&a, "git:fetch", at("t"), NULL, "act.failed", OBSERVE_FAILED);
	/* The name leads nowhere; the pin to the site. */
	tree("https://nowhere.example.test:8443/repo.git");
	refused(&a, "git:fetch", at("t"), NULL, "egress.resolve", OBSERVE_WRONG);
	tree("https://moved.example.test:8443/repo.git");
	acting_pin = PIN;
	refused(&a, "git:fetch", at("t"), NULL, "act.changed", OBSERVE_WRONG);
	assert_string_equal(fetched("main"), "none");
}

/* A server that is someone else, leads elsewhere or asks for a password is not followed. */
static void
servers_lead_nowhere(void **state)
{
	static struct ask a;

	(void)state;
	tree("https://" NAME ":8444/repo.git");
	acting_pin = NAME ":8444:" NETNS_SITE;
	refused(&a, "git:fetch", at("t"), NULL, "act.failed", OBSERVE_FAILED);
	tree("https://" NAME ":8444/secret.git");
	acting_pin = NAME ":8444:" NETNS_SITE;
	refused(&a, "git:fetch", at("t"), NULL, "act.failed", OBSERVE_FAILED);
	/* A certificate for another name, and one that nobody trusts. */
	tree("https://moved.example.test:8443/repo.git");
	acting_pin = "moved.example.test:8443:" NETNS_SITE;
	refused(&a, "git:fetch", at("t"), NULL, "act.failed", OBSERVE_FAILED);
	tree("https://" NAME ":8443/repo.git");
	env.trust[0] = '\0';
	acting_pin = PIN;
	refused(&a, "git:fetch", at("t"), NULL, "act.failed", OBSERVE_FAILED);
	assert_string_equal(fetched("main"), "none");
}

/* A tree that says more than a plain place is left alone, before anything is looked up. */
static void
odd_origins_are_refused(void **state)
{
	static const char *const odd[] = {"http://" NAME "/r", "git://" NAME "/r",
	    "ssh://" NAME "/r", "/srv/repo", "ext::sh -c x", "https://user:secret@" NAME "/r",
	    "https://127.1/r", "https://" NAME ":0/r", "https://" NAME "/r?x", "file:///srv/r",
	    "https://"};
	static const char *const keys[] = {"remote.origin.vcs x", "remote.origin.uploadpack x",
	    "remote.origin.proxy http://x", "http.proxy http://x", "url.x.insteadOf https://",
	    "core.sshCommand x", "http.sslVerify false", "credential.helper x", "include.path x",
	    "remote.https://a.url.vcs x", "core.gitProxy x", "http.curloptResolve a:1:2"};
	static struct ask a;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		tree(odd[i]);
		refused(&a, "git:fetch", at("t"), NULL, "act.remote", OBSERVE_WRONG);
	}
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		tree("https://" NAME ":8443/repo.git");
		shell("cd %s/t && git config %s", root, keys[i]);
		refused(&a, "git:fetch", at("t"), NULL, "act.tree", OBSERVE_WRONG);
	}
	tree("https://" NAME ":8443/repo.git");
	refused(&a, "git:fetch", at("t"), "other.example.test", "act.remote", OBSERVE_WRONG);
	refused(&a, "git:fetch", at("t"), NAME, "act.remote", OBSERVE_WRONG);
	act(&a, "git:fetch", at("t"), NAME ":8443", 0, 0);
}

/* DST-5: a git that cannot be held to an address fetches nothing, and says why. */
static void
an_old_git_is_refused(void **state)
{
	static struct ask a;
	static const char *const old[] = {"git version 2.36.6", "git version 1.9", "git version x"};
	char body[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
		tree("https://" NAME ":8443/repo.git");
		snprintf(body, sizeof(body),
		    "[ \"$1\" = version ] && echo '%s' && exit 0\n"
		    "case \"$*\" in *ls-remote*|*fetch*) touch %s/dialled;; esac\nexec /usr/bin/git \"$@\"",
		    old[i], root);
		recorded_stand_in(env.git, body);
		acting_pin = PIN;
		refused(&a, "git:fetch", at("t"), NULL, "act.tool", OBSERVE_MISSING);
		ask_is(a.result, "SELECT instr(?1 ->> '$.refused.why', '2.37') > 0", "1");
		assert_string_equal(content(at("dialled")), "(none)");
	}
	snprintf(env.git, sizeof(env.git), "/nonexistent");
	refused(&a, "git:fetch", at("t"), NULL, "act.tool", OBSERVE_MISSING);
	snprintf(env.git, sizeof(env.git), "/usr/bin/git");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(branches_are_fetched),
	    cmocka_unit_test(only_the_pinned_address_is_dialled),
	    cmocka_unit_test(servers_lead_nowhere),
	    cmocka_unit_test(odd_origins_are_refused),
	    cmocka_unit_test(an_old_git_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
