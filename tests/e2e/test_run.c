/* test_run.c: bastion run as people use it: what gets out, what does not, and terminals. */
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "engine/state/egress.h"
#include "engine/state/token.h"
#include "tests/netns.h"
#include "tests/program.h"

static struct scratch s;
static struct program p;
static struct program_talk t;
static bool isolated;
static pid_t origins[3];
static char project[128], was[PATH_MAX];

/* What follows "bastion run", then a command of sh; NULL ends the first. */
static void
run(const char *command, ...)
{
	const char *words[16] = {"run", "--env", "PATH=/usr/bin:/bin"};
	const char *word;
	size_t n = 3;
	va_list ap;

	va_start(ap, command);
	while ((word = va_arg(ap, const char *)) != NULL && n < 11)
		words[n++] = word;
	va_end(ap);
	words[n++] = "--";
	words[n++] = "sh";
	words[n++] = "-c";
	words[n++] = command;
	words[n] = NULL;
	program_run(&p, &s, NULL, words);
}

static void
failed(const char *command)
{
	fail_msg("%s: %d\n%s\n%s", command, p.code, p.out, p.err);
}

/* It ends with ${code} and says ${text}, on either descriptor. */
#define RUN(code_, text, command, ...)                                            \
	do {                                                                      \
		run(command, ##__VA_ARGS__, (char *)NULL);                        \
		if (p.code != (code_) ||                                          \
		    (strstr(p.out, text) == NULL && strstr(p.err, text) == NULL)) \
			failed(command);                                          \
		program_free(&p);                                                 \
	} while (0)

static void
origin_start(int i, const char *port, const char *certificate)
{
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	if ((origins[i] = netns_fork()) == 0) {
		dup2(ready[1], 1);
		execl("/usr/bin/python3", "python3", "tests/egress/origin.py", NETNS_SITE, port,
		    project, certificate, (char *)NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static const char PREPARE[] =
    "cd %s && echo from the site >page && "
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 2 -subj /CN=site "
    "-addext subjectAltName=DNS:site.example.test 2>log && cat k c >cert.pem && "
    "git init -q -b main work && cd work && git config user.email a@b && git config user.name a && "
    "echo one >file && git add file && git commit -qm one && "
    "git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info && cd .. && "
    "printf '127.0.0.1 localhost\\n" NETNS_SITE " site.example.test\\n" NETNS_OTHER
    " other.example.test\\n' >hosts";

static int
set_up(void **state)
{
	char command[2048], hosts[160], certificate[160];

	(void)state;
	program_path(); /* while we stand where its name is from */
	if (getcwd(was, sizeof(was)) == NULL || !(isolated = netns_enter()))
		return 0;
	scratch_make(&s, HOME_BOX);
	snprintf(project, sizeof(project), "%s/project", s.dir);
	assert_int_equal(mkdir(project, 0755), 0);
	snprintf(command, sizeof(command), PREPARE, project);
	assert_int_equal(system(command), 0);
	snprintf(hosts, sizeof(hosts), "%s/hosts", project);
	snprintf(certificate, sizeof(certificate), "%s/cert.pem", project);
	/* Names of our own, for the lane to look up. */
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL) != 0) {
		isolated = false;
		return 0;
	}
	origin_start(0, "8080", NULL);
	origin_start(1, "8443", certificate);
	origin_start(2, "443", certificate);
	assert_int_equal(chdir(project), 0);
	return 0;
}

static int
tear_down(void **state)
{
	int i;

	(void)state;
	if (!isolated)
		return 0;
	for (i = 0; i < 3; i++) {
		kill(origins[i], SIGKILL);
		waitpid(origins[i], NULL, 0);
	}
	assert_int_equal(chdir(was), 0);
	scratch_drop(&s);
	return 0;
}

static void
needs_namespaces(void)
{
	if (!isolated) {
		print_message("no network namespaces can be made here\n");
		skip();
	}
}

/*
 * What gets out.
 */

#define NO_PROXIES \
	"env -u http_proxy -u https_proxy -u all_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY "

/* RU-10, RU-11: programs find the lane by their environment, all by the same six names. */
static void
clients_reach_what_is_allowed(void **state)
{
	(void)state;
	needs_namespaces();
	RUN(0, "from the site", "curl -sS http://site.example.test:8080/page", "--allow",
	    "site.example.test");
	RUN(0, "from the site", "curl -sS --cacert c https://site.example.test:8443/page",
	    "--allow", "site.example.test:8443");
	RUN(0, "from the site", "curl -sS -x \"$ALL_PROXY\" http://site.example.test:8080/page",
	    "--allow", "example.test");
	RUN(0, "one",
	    "GIT_SSL_CAINFO=$PWD/c git clone -q https://site.example.test:8443/repo.git /tmp/a && cat "
	    "/tmp/a/file",
	    "--allow", "site.example.test");
	RUN(0, "from the site",
	    "python3 -c 'import urllib.request as u; "
	    "print(u.urlopen(\"http://site.example.test:8080/page\").read().decode())'",
	    "--allow", "site.example.test");
	RUN(0, "http://127.0.0.1:3128 socks5h://127.0.0.1:1080 localhost,127.0.0.1,::1",
	    "[ $http_proxy$https_proxy$all_proxy$no_proxy = $HTTP_PROXY$HTTPS_PROXY$ALL_PROXY$NO_PROXY ]"
	    " && echo $HTTPS_PROXY $ALL_PROXY $NO_PROXY");
	assert_int_equal(
	    scratch_value(&s,
		"SELECT count(*) FROM egress_flow WHERE state = 'done'"
		" AND run_id IS NOT NULL AND surface IN ('http', 'connect', 'socks5')"),
	    5);
}

/* Programs that know of no proxy, and one without a library, are caught and carried by name. */
static void
what_knows_no_proxy_is_carried(void **state)
{
	(void)state;
	needs_namespaces();
	RUN(0, "from the site", NO_PROXIES "curl -sS http://site.example.test:8080/page", "--allow",
	    "site.example.test");
	RUN(0, "from the site",
	    NO_PROXIES "curl -sS --cacert c https://site.example.test:8443/page", "--allow",
	    "site.example.test");
	/* By an address, too, where a rule names it. */
	RUN(0, "from the site", NO_PROXIES "curl -sS http://" NETNS_SITE ":8080/page", "--allow",
	    NETNS_SITE ":8080");
	if (system("command -v node >/dev/null") == 0)
		RUN(0, "from the site",
		    NO_PROXIES
		    "NODE_USE_ENV_PROXY= node -e 'fetch(\"http://site.example.test:8080/page\")"
		    ".then(r => r.text()).then(console.log)'",
		    "--allow", "site.example.test");
	assert_true(scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE surface = 'caught'"
				      " AND host = 'site.example.test' AND state = 'done'") >= 2);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_rule WHERE run_id IS NOT NULL"
			      " AND state = 'active'"),
	    0);
}

/*
 * Looking into tunnels.
 */

#define SITE      "site.example.test"
#define SECRET    "s3cr3t-0123456789abcdef"
#define SEEN_LANE "issuer: O=bastion; CN=bastion inspection"

/* The lane trusts the site, as the machine's programs outside would. */
static void
trust_site(void)
{
	char certificate[160];

	snprintf(certificate, sizeof(certificate), "%s/c", project);
	setenv("SSL_CERT_FILE", certificate, 1);
}

/* GET of /whoami at port 8443 goes with a token, of /page without; nothing else does. */
static void
narrow_site(void)
{
	const char *const hosts[] = {SITE};
	struct token_wish wish = {.name = "site", .hosts = hosts, .nhosts = 1};
	struct egress_within within[] = {{.method = "GET", .path = "/page"},
	    {.method = "GET", .path = "/whoami", .token = "site"}};
	struct egress_rule rule = {.uid = -1, .suffix = SITE, .port = 8443};
	int64_t id;
	size_t i;

	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(token_add(s.db, s.key, &wish, SECRET, &id), 0);
	for (i = 0; i < 2; i++) {
		rule.within = &within[i];
		assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	}
}

static void
widen_site(void)
{
	int64_t count;

	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_forget(s.db, 0, SITE, &count), 0);
}

/* A program trusts the lane by itself, with a proxy and without, and sees it where it looks in. */
static void
tunnels_are_looked_into(void **state)
{
	static const char *const ways[] = {"", NO_PROXIES};
	char command[512];
	size_t i;

	(void)state;
	needs_namespaces();
	trust_site();
	for (i = 0; i < 2; i++) {
		snprintf(command, sizeof(command),
		    "%scurl -sSv https://" SITE "/page 2>&1 | grep -e issuer -e site", ways[i]);
		RUN(0, SEEN_LANE, command, "--inspect=all", "--allow", SITE);
		RUN(0, "from the site", command, "--inspect=all", "--allow", SITE);
		/* Where no rule says anything of requests, nobody looks. */
		snprintf(command, sizeof(command),
		    "%scurl -sSv --cacert c https://" SITE "/page 2>&1 | grep -e issuer -e site",
		    ways[i]);
		RUN(0, "issuer: CN=site", command, "--inspect", "--allow", SITE);
		RUN(0, "issuer: CN=site", command, "--allow", SITE);
	}
	/* One that is caught speaks what it likes elsewhere. */
	RUN(0, "issuer: CN=site", NO_PROXIES "curl -sSv --cacert c https://" SITE ":8443/page 2>&1",
	    "--inspect=all", "--allow", SITE);
	/* Libraries find the lane by their variables, and by the machine's own file. */
	RUN(0, "from the site",
	    "python3 -c 'import urllib.request as u; "
	    "print(u.urlopen(\"https://" SITE "/page\").read().decode())'",
	    "--inspect=all", "--allow", SITE);
	RUN(0, "one", "git clone -q https://" SITE "/repo.git /tmp/a && cat /tmp/a/file",
	    "--inspect=all", "--allow", SITE);
	if (access("/etc/ssl/certs/ca-certificates.crt", F_OK) == 0)
		RUN(0, "from the site",
		    "env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sS https://" SITE "/page",
		    "--inspect=all", "--allow", SITE);
	unsetenv("SSL_CERT_FILE");
}

/* What programs trust is a run's own, and nobody writes it. */
static void
trust_is_the_runs(void **state)
{
	(void)state;
	needs_namespaces();
	trust_site();
	RUN(0, "held",
	    "for f in /tmp/bastion-ca.pem /tmp/bastion-roots.pem; do "
	    "! (: >$f) 2>/dev/null && ! rm -f $f 2>/dev/null && grep -q CERTIFICATE $f || exit 1; "
	    "done && echo held",
	    "--inspect");
	/* The machine's own are there beside it. */
	RUN(0, "", "test $(grep -c BEGIN.CERT /tmp/bastion-roots.pem) = 2", "--inspect");
	RUN(0, "", "test $(grep -c BEGIN.CERT /tmp/bastion-ca.pem) = 1", "--inspect");
	RUN(0, "mine", "echo $SSL_CERT_FILE", "--inspect", "--env", "SSL_CERT_FILE=mine");
	RUN(0, "none", "test -z \"$SSL_CERT_FILE\" && ! test -e /tmp/bastion-ca.pem && echo none");
	assert_int_equal(system("! ls ../.cache/bastion/run | grep -e ca$ -e roots$"), 0);
	unsetenv("SSL_CERT_FILE");
	RUN(2, "run.inspect", "true", "--inspect=some");
	RUN(2, "run.inspect", "true", "--inspect", "--no-net");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_authority"), 0);
}

/* A rule of requests holds within TLS, caught or not, and a token goes along that is not seen. */
static void
requests_and_tokens(void **state)
{
	static const char *const ways[] = {"", NO_PROXIES};
	unsigned char digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1], command[512];
	const char *sent = "Bearer " SECRET;
	size_t i;

	(void)state;
	needs_namespaces();
	crypto_hash_sha256(digest, (const unsigned char *)sent, strlen(sent));
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	trust_site();
	narrow_site();
	for (i = 0; i < 2; i++) {
		snprintf(
		    command, sizeof(command), "%scurl -sS https://" SITE ":8443/page", ways[i]);
		RUN(0, "from the site", command, "--inspect");
		snprintf(
		    command, sizeof(command), "%scurl -sS https://" SITE ":8443/file", ways[i]);
		RUN(0, "egress.within", command, "--inspect");
		snprintf(command, sizeof(command), "%scurl -sS -d x https://" SITE ":8443/page",
		    ways[i]);
		RUN(0, "egress.within", command, "--inspect");
		/* The site got the secret, and nothing inside does. */
		snprintf(command, sizeof(command),
		    "%scurl -sSv https://" SITE ":8443/whoami 2>&1; env; cat /tmp/*.pem", ways[i]);
		run(command, "--inspect", (char *)NULL);
		assert_int_equal(p.code, 0);
		if (strstr(p.out, hex) == NULL)
			failed(command);
		assert_null(strstr(p.out, SECRET));
		assert_null(strstr(p.err, SECRET));
		program_free(&p);
	}
	/* A lane that looks into nothing lets nothing of it out, and says how. */
	RUN(56, "bastion run --inspect", "curl -sS -k https://" SITE ":8443/page");
	widen_site();
	unsetenv("SSL_CERT_FILE");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_request WHERE token_id IS NOT NULL"
			      " AND state = 'done'"),
	    2);
}

/* SEG-06, SEG-07, SEG-14: what no rule allows is refused, with a reason and what to do. */
static void
denied_says_why(void **state)
{
	uint16_t port = 0;
	int listener;
	char command[256], advice[128];
	struct pollfd w;

	(void)state;
	needs_namespaces();
	listener = netns_listen(NETNS_OTHER, &port);
	snprintf(command, sizeof(command), "curl -sS http://other.example.test:%d/", port);
	snprintf(advice, sizeof(advice), "bastion egress allow other.example.test:%d", port);
	RUN(0, "no rule allows this [egress.unknown]", command);
	RUN(0, advice, command);
	snprintf(command, sizeof(command), "curl -sS https://other.example.test:%d/", port);
	RUN(56, advice, command);
	RUN(56, "egress.denied", command, "--allow", "example.test", "--deny",
	    "other.example.test");
	snprintf(
	    command, sizeof(command), NO_PROXIES "curl -sS https://other.example.test:%d/", port);
	RUN(35, advice, command);
	RUN(35, "egress.denied", command, "--allow", "*", "--deny", "other.example.test");
	w = (struct pollfd){.fd = listener, .events = POLLIN};
	assert_int_equal(poll(&w, 1, 0), 0);
	close(listener);
}

/* RU-13, SEG-02: no rule, and a blank one, are no network; a rule is what it names; all is all that
 * is public.  RU-16: with one, what there is is a loopback, on which the lane is, and the
 * environment names it. */
static void
network_is_what_was_allowed(void **state)
{
	static const char both[] =
	    "for n in site other; do curl -sS http://$n.example.test:8080/page; done";

	(void)state;
	needs_namespaces();
	run(both, (char *)NULL);
	assert_null(strstr(p.out, "from the site"));
	assert_non_null(strstr(p.err, "site.example.test:8080: no rule allows this"));
	assert_non_null(strstr(p.err, "other.example.test:8080: no rule allows this"));
	program_free(&p);
	RUN(2, "egress.authority", both, "--allow", "");
	RUN(2, "egress.authority", both, "--allow", " ");
	run(both, "--allow", "site.example.test", (char *)NULL);
	assert_non_null(strstr(p.out, "from the site"));
	assert_null(strstr(p.err, "site.example.test:8080: no rule allows this"));
	assert_non_null(strstr(p.err, "other.example.test:8080: no rule allows this"));
	program_free(&p);
	run(both, "--allow", "*", (char *)NULL);
	assert_non_null(strstr(p.out, "from the site"));
	assert_null(strstr(p.err, "no rule allows this"));
	program_free(&p);
	RUN(0, "is lo http://127.0.0.1:3128",
	    "echo is $(tail -n +3 /proc/net/dev | cut -d: -f1) $HTTP_PROXY", "--allow",
	    "site.example.test");
}

/* RU-17: without what the lane needs nothing is started, with an open network least of all. */
static void
no_lane_no_run(void **state)
{
	char key[PATH_MAX], aside[PATH_MAX];

	(void)state;
	needs_namespaces();
	snprintf(key, sizeof(key), "%s/bastion.key", s.home.state);
	snprintf(aside, sizeof(aside), "%s/aside", s.home.state);
	assert_int_equal(rename(key, aside), 0);
	run("touch ran", (char *)NULL);
	assert_int_equal(rename(aside, key), 0);
	assert_int_not_equal(p.code, 0);
	assert_non_null(strstr(p.err, "key.missing"));
	assert_int_equal(access("ran", F_OK), -1);
	program_free(&p);
}

/* What gives rights outside is refused in words, wherever it is called from. */
static void
rights_are_refused(void **state)
{
	(void)state;
	needs_namespaces();
	RUN(126, "so su is refused", "su -c true");
	RUN(126, "so su is refused", "exec /usr/bin/su");
	RUN(1, "Read-only", "echo x >/usr/bin/su || exit 1");
	program_run(&p, &s, NULL, (const char *const[]){"run", "--", "su", NULL});
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "so su is refused"));
	program_free(&p);
}

/*
 * Tools, as people use them.
 */

/* The output of a program outside; it has to do well. */
static void
outside(const char *command)
{
	if (system(command) != 0)
		fail_msg("%s", command);
}

/* pip installs from an index, by the lane, into a home that is kept. */
static void
pip_installs(void **state)
{
	static const char wheel[] =
	    "mkdir -p simple/demo && python3 -c '"
	    "import zipfile as z\n"
	    "w = z.ZipFile(\"simple/demo/demo-1.0-py3-none-any.whl\", \"w\")\n"
	    "w.writestr(\"demo.py\", \"said = 42\\n\")\n"
	    "i = \"demo-1.0.dist-info/\"\n"
	    "w.writestr(i + \"METADATA\", \"Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n\")\n"
	    "w.writestr(i + \"WHEEL\", \"Wheel-Version: 1.0\\nGenerator: a\\n"
	    "Root-Is-Purelib: true\\nTag: py3-none-any\\n\")\n"
	    "w.writestr(i + \"RECORD\", \"demo.py,,\\n\")\nw.close()'";

	(void)state;
	needs_namespaces();
	if (system("/usr/bin/python3 -m pip --version >/dev/null 2>&1") != 0) {
		print_message("there is no pip here\n");
		skip();
	}
	outside(wheel);
	RUN(0, "42",
	    "python3 -m pip --isolated install -q --target ~/lib --cert c --index-url"
	    " https://site.example.test:8443/simple/ demo &&"
	    " PYTHONPATH=~/lib python3 -c 'import demo; print(demo.said)'",
	    "--allow", "site.example.test:8443");
	RUN(1, "egress.unknown",
	    "python3 -m pip --isolated install -q --retries 0 --target ~/l --cert c --index-url"
	    " https://site.example.test:8443/simple/ demo");
}

/* npm as well. */
static void
npm_installs(void **state)
{
	static const char package[] =
	    "mkdir -p package npm && printf '{\"name\":\"demo\",\"version\":\"1.0.0\"}'"
	    " >package/package.json && echo 'module.exports = 42' >package/index.js &&"
	    " tar czf demo-1.0.0.tgz package && printf '{\"name\":\"demo\",\"dist-tags\":"
	    "{\"latest\":\"1.0.0\"},\"versions\":{\"1.0.0\":{\"name\":\"demo\",\"version\":"
	    "\"1.0.0\",\"dist\":{\"tarball\":"
	    "\"https://site.example.test:8443/demo-1.0.0.tgz\"}}}}' >demo";

	(void)state;
	needs_namespaces();
	if (system("PATH=/usr/bin:/bin npm --version >/dev/null 2>&1") != 0) {
		print_message("there is no npm in /usr/bin\n");
		skip();
	}
	outside(package);
	RUN(0, "42",
	    "cd npm && npm install --no-audit --no-fund --no-update-notifier --cafile ../c"
	    " --registry https://site.example.test:8443/ demo &&"
	    " node -e 'console.log(require(\"demo\"))'",
	    "--allow", "site.example.test:8443");
}

/* Keys of an agent are used inside where that is allowed, and not seen. */
static void
ssh_agent_is_shown(void **state)
{
	(void)state;
	needs_namespaces();
	/* It ends with this test's folder: the agent's own word for its end is SSH_AGENT_PID. */
	outside(
	    "mkdir -m 700 ../.ssh && ssh-keygen -q -t ed25519 -N '' -C mine -f ../.ssh/id_ed25519"
	    " && ssh-agent -a ../agent >agent.sh && SSH_AUTH_SOCK=../agent"
	    " ssh-add -q ../.ssh/id_ed25519");
	assert_int_equal(setenv("SSH_AUTH_SOCK", "../agent", 1), 0);
	RUN(2, "authentication agent", "ssh-add -l");
	RUN(0, "mine", "ssh-add -l && test ! -e ~/.ssh/id_ed25519", "--agent", "ssh");
	/* A commit signed with it. */
	RUN(0, "gpgsig",
	    "cd work && ssh-add -L >/tmp/key && git -c gpg.format=ssh -c user.signingkey=/tmp/key"
	    " commit -q --allow-empty -S -m signed && git cat-file commit HEAD",
	    "--agent", "ssh", "--no-net");
	outside(". ./agent.sh >/dev/null && kill $SSH_AGENT_PID");
	setenv("SSH_AUTH_SOCK", "../nobody", 1);
	RUN(2, "run.agent", "true", "--agent", "ssh");
	RUN(2, "run.agent", "true", "--agent", "other");
	unsetenv("SSH_AUTH_SOCK");
}

/* And of gpg's, which signs by its restricted socket and gives out no key. */
static void
gpg_agent_is_shown(void **state)
{
	(void)state;
	needs_namespaces();
	if (system("gpg --version >/dev/null 2>&1") != 0) {
		print_message("there is no gpg here\n");
		skip();
	}
	outside("mkdir -m 700 ../.gnupg && export GNUPGHOME=$(realpath ../.gnupg) && gpg -q --batch"
		" --passphrase '' --quick-gen-key mine@example.test ed25519 sign never 2>log");
	RUN(0, "BEGIN PGP SIGNED MESSAGE",
	    "echo text | gpg --batch --lock-never -q --clearsign && ! gpg --batch --lock-never"
	    " --export-secret-keys | grep -q . && test ! -e ~/.gnupg/private-keys-v1.d",
	    "--agent", "gpg", "--no-net");
	outside("GNUPGHOME=$(realpath ../.gnupg) gpgconf --kill gpg-agent");
}

/*
 * What comes in.
 */

/* A socket bound to a port of this machine that was free. */
static int
hold_port(uint16_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* A port of this machine that nothing listens at. */
static uint16_t
free_port(void)
{
	uint16_t port;

	close(hold_port(&port));
	return port;
}

/* Start ${server} with ${flag}, and hear in ${said} what curl says to it from outside. */
static int
published(uint16_t port, const char *ports, const char *flag, const char *by, char said[512])
{
	const char *words[] = {"run", "--env", "PATH=/usr/bin:/bin", "--publish", ports, flag, "--",
	    "sh", "-c",
	    "python3 -c '"
	    "import http.server as h, os\n"
	    "s = h.HTTPServer((\"127.0.0.1\", 3000), h.SimpleHTTPRequestHandler)\n"
	    "print(\"listens\", flush=True)\ns.handle_request()'",
	    NULL};
	char command[512];
	size_t n;
	FILE *f;

	program_talk(&t, &s, words);
	program_expect(&t, "listens");
	snprintf(command, sizeof(command), "%s curl -sS http://127.0.0.1:%d/page 2>&1", by, port);
	assert_non_null(f = popen(command, "r"));
	n = fread(said, 1, 511, f);
	said[n] = '\0';
	return pclose(f);
}

/* A server inside is reached from outside, by its person alone, with a lane and without. */
static void
a_port_is_published(void **state)
{
	uint16_t port = free_port();
	char ports[32], said[512];

	(void)state;
	needs_namespaces();
	snprintf(ports, sizeof(ports), "%d:3000", port);
	assert_int_equal(published(port, ports, "--quiet", "", said), 0);
	assert_string_equal(said, "from the site\n");
	program_ends(&t, 0);
	assert_int_equal(published(port, ports, "--no-net", "", said), 0);
	assert_string_equal(said, "from the site\n");
	program_ends(&t, 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM run_port WHERE inside = 3000"), 2);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE action = 'published'"), 2);
	/* And by nobody when it is over. */
	snprintf(ports, sizeof(ports), "curl -s 127.0.0.1:%d", port);
	assert_int_not_equal(system(ports), 0);
}

static void
a_port_is_the_persons(void **state)
{
	uint16_t port = free_port();
	char ports[32], said[512];

	(void)state;
	needs_namespaces();
	/* Another user needs a number of its own, which an ordinary user's namespace lacks. */
	if (system("setpriv --reuid 65534 --clear-groups true 2>/dev/null") != 0)
		skip();
	snprintf(ports, sizeof(ports), "%d:3000", port);
	assert_int_not_equal(
	    published(port, ports, "--quiet", "setpriv --reuid 65534 --clear-groups", said), 0);
	assert_null(strstr(said, "from the site"));
	kill(t.pid, SIGKILL);
	program_over(&t);
}

/* What cannot be published is said, and nothing runs. */
static void
no_port_no_run(void **state)
{
	uint16_t port;
	char text[32];
	int fd = hold_port(&port);

	(void)state;
	needs_namespaces();
	snprintf(text, sizeof(text), "%d", port);
	RUN(2, "cannot be had", "touch ran", "--publish", text);
	close(fd);
	RUN(2, "is no PORT", "touch ran", "--publish", "http");
	RUN(2, "is no PORT", "touch ran", "--publish", "65536");
	RUN(2, "is no PORT", "touch ran", "--publish", "80:");
	RUN(2, "is no PORT", "touch ran", "--publish", "0");
	RUN(2, "is the lane's inside", "touch ran", "--publish", "0:3128");
	assert_int_equal(access("ran", F_OK), -1);
}

/* Nothing of this machine, of its networks, and nothing but TCP by the lane. */
static void
nothing_else_gets_out(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0bastion-run-test"};
	int abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd w = {.events = POLLIN};
	uint16_t port = 0;
	char command[512];

	(void)state;
	needs_namespaces();
	RUN(0, "egress.this_machine", "curl -sS -x $HTTP_PROXY --noproxy '' http://127.0.0.1:22/",
	    "--allow", "*");
	RUN(0, "egress.network", NO_PROXIES "curl -sS http://" NETNS_ROUTER ":80/", "--allow", "*");
	RUN(0, "egress.link", NO_PROXIES "curl -sS http://169.254.169.254/", "--allow", "*");
	/* UDP to a server that is there; the answer of whatever looks like a resolver is ours. */
	w.fd = netns_listen(NETNS_SITE, &port);
	snprintf(command, sizeof(command),
	    "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
	    " s.settimeout(0.2); s.sendto(b\"x\", (\"" NETNS_SITE "\", %d)); s.recv(9)'",
	    port);
	RUN(1, "Error", command, "--allow", "*");
	RUN(0, "198.18.0.1",
	    "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
	    "s.settimeout(9); s.sendto(bytes.fromhex(\"0001010000010000000000000361626304746573740000010001\"), "
	    "(\"8.8.8.8\", 53)); print(*s.recv(99)[-4:], sep=\".\")'");
	assert_int_equal(poll(&w, 1, 0), 0);
	close(w.fd);
	RUN(1, "Operation not permitted",
	    "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'");
	RUN(1, "unreachable",
	    "python3 -c 'import socket; socket.create_connection((\"" NETNS_SIX "\", 8080))'",
	    "--allow", "*");
	assert_int_equal(
	    bind(abstract, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path) + 17), 0);
	assert_int_equal(listen(abstract, 1), 0);
	RUN(1, "refused",
	    "python3 -c 'import socket; "
	    "socket.socket(socket.AF_UNIX).connect(\"\\0bastion-run-test\")'");
	close(abstract);
	RUN(7, "Couldn", NO_PROXIES "curl -sS http://" NETNS_SITE ":8080/page", "--no-net");
}

static const char STATIC[] =
    "#include <arpa/inet.h>\n#include <stdio.h>\n#include <unistd.h>\n"
    "int main(void) { struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(8080)};"
    " char b[999]; int fd = socket(AF_INET, SOCK_STREAM, 0); inet_pton(AF_INET, \"" NETNS_SITE
    "\", &a.sin_addr); if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) return 1;"
    " write(fd, \"GET /page HTTP/1.0\\r\\n\\r\\n\", 22); long n, all = 0;"
    " while ((n = read(fd, b, 998)) > 0) { all += n; b[n] = 0; write(1, b, n); }"
    " return all > 0 ? 0 : 2; }\n";

static void
static_program_is_held(void **state)
{
	FILE *f;

	(void)state;
	needs_namespaces();
	assert_non_null(f = fopen("static.c", "w"));
	fputs(STATIC, f);
	fclose(f);
	if (system("gcc -w -static -o static static.c 2>/dev/null") != 0)
		skip();
	RUN(2, "egress.unknown", "./static");
	RUN(0, "from the site", "./static", "--allow", NETNS_SITE);
}

/*
 * What is seen.
 */

static void
bastion_is_invisible(void **state)
{
	char command[3 * PATH_MAX];

	(void)state;
	needs_namespaces();
	snprintf(command, sizeof(command), "cat %s/bastion.key %s/bastion.db", s.home.state,
	    s.home.state);
	RUN(1, "No such file", command);
	/* Also where the person shows a folder around it. */
	run(command, "--rw", s.dir, (char *)NULL);
	assert_int_equal(p.code, 1);
	assert_int_equal(p.len, 0);
	program_free(&p);
	snprintf(command, sizeof(command), "ls -A %s %s | wc -l", s.home.state, s.home.run);
	run(command, "--rw", s.dir, (char *)NULL);
	assert_int_equal(p.code, 0);
	assert_true(atoi(p.out) <= 3); /* two headings and an empty line */
	program_free(&p);
	RUN(0, "0", "ls -l /proc/self/fd | grep -c bastion; true");
}

static void
folder_home_and_system(void **state)
{
	struct stat st;

	(void)state;
	needs_namespaces();
	RUN(0, "kept", "echo new >made; echo x >~/cache; echo y >/tmp/z; echo kept");
	assert_int_equal(stat("made", &st), 0);
	RUN(0, "x", "cat ~/cache; ls /tmp/z && exit 1; exit 0");
	RUN(2, "Read-only", "echo x >/usr/bin/x");
	/* What others run later, outside. */
	assert_int_equal(chdir("work"), 0);
	RUN(2, "Read-only", "echo x >.git/hooks/pre-commit");
	RUN(0, "", "echo two >>file && git commit -qam two");
	RUN(0, "", "echo x >.git/hooks/pre-commit", "--rw", ".git/hooks");
	assert_int_equal(chdir(project), 0);
	assert_int_equal(setenv("BASTION_TEST_SECRET", "hush", 1), 0);
	RUN(0, "-", "echo $BASTION_TEST_SECRET-");
	RUN(0, "hush-given", "echo $BASTION_TEST_SECRET-$GIVEN", "--env", "BASTION_TEST_SECRET",
	    "--env", "GIVEN=given");
	unsetenv("BASTION_TEST_SECRET");
}

/* RF-12: whatever HOME says, the home that the machine's list has is no project, and its keys are
 * hidden. */
static void
home_is_no_variables_word(void **state)
{
	const struct passwd *pw = getpwuid(geteuid());
	char command[512], path[PATH_MAX];
	FILE *f;

	(void)state;
	needs_namespaces();
	/* One for the test, where the person's is. */
	if (pw == NULL || strcmp(pw->pw_dir, "/") == 0 ||
	    mount("tmpfs", pw->pw_dir, "tmpfs", 0, NULL) != 0)
		skip();
	snprintf(path, sizeof(path), "%s/.ssh", pw->pw_dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/.ssh/id_rsa", pw->pw_dir);
	assert_non_null(f = fopen(path, "w"));
	fputs("canary\n", f);
	fclose(f);
	snprintf(command, sizeof(command), "cat %s/.ssh/*; test ! -e %s/.ssh/id_rsa && pwd",
	    pw->pw_dir, pw->pw_dir);
	assert_int_equal(chdir(pw->pw_dir), 0);
	RUN(0, s.dir, command, "--no-net");
	RUN(0, "", command, "--no-net", "--rw", pw->pw_dir);
	assert_int_equal(chdir(project), 0);
	assert_int_equal(umount2(pw->pw_dir, MNT_DETACH), 0);
}

static void
exit_codes_pass(void **state)
{
	(void)state;
	needs_namespaces();
	RUN(7, "", "exit 7");
	RUN(137, "", "kill -9 $$");
	RUN(143, "", "kill $$");
	RUN(0, "1", "grep NoNewPrivs /proc/self/status");
	assert_int_equal(scratch_value(&s, "SELECT exit_code FROM sandbox_run WHERE state = 'ended'"
					   " AND exit_code = 143"),
	    143);
	program_run(&p, &s, NULL, (const char *const[]){"run", "--", "/nowhere", NULL});
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "sandbox.program"));
	program_free(&p);
	RUN(2, "run.preset", "true", "--allow", "@nothing");
	RUN(2, "egress.authority", "true", "--allow", "bad host");
	RUN(0, "", "true", "--allow", "@npm");
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_rule"
			      " WHERE suffix = 'registry.npmjs.org' AND state = 'dropped'"),
	    1);
}

/* Where namespaces are forbidden the setting is named, and nothing runs. */
static void
no_namespaces_no_run(void **state)
{
	char command[2 * PATH_MAX], path[PATH_MAX];

	(void)state;
	needs_namespaces();
	assert_non_null(realpath(program_path(), path));
	snprintf(command, sizeof(command),
	    "export BASTION_STATE=/tmp/s BASTION_RUN=/tmp/r ASAN_OPTIONS=detect_leaks=0;"
	    " unset BASTION_SANDBOXED; %s run -- touch /tmp/ran; echo $?; ls /tmp",
	    path);
	run(command, "--ro", path, (char *)NULL);
	if (strncmp(p.out, "3\n", 2) != 0 || strstr(p.out, "ran") != NULL ||
	    strstr(p.err, "user.max_user_namespaces") == NULL)
		failed(command);
	program_free(&p);
}

/*
 * RU-14: with bubblewrap a program that domains were allowed to has no network, no proxy in its
 * environment and no lane; which is said. RU-15: as where none was allowed.
 */
static void
bubblewrap_has_no_lane(void **state)
{
	static const char looks[] =
	    "env | grep -ic proxy; grep -c : /proc/net/dev; curl -sS -m 5 http://" NETNS_SITE
	    ":8080/page;"
	    " echo $BASTION_SANDBOXED $BASTION_SANDBOX_BACKEND; touch made && pwd; exit 5";
	char expected[256];
	int allowed;

	(void)state;
	needs_namespaces();
	if (system("command -v bwrap >/dev/null") != 0)
		skip();
	snprintf(expected, sizeof(expected), "0\n1\n1 bubblewrap\n%s\n", project);
	for (allowed = 0; allowed < 2; allowed++) {
		run(looks, "--backend", "bubblewrap", allowed ? "--allow" : NULL, "*",
		    (char *)NULL);
		if (p.code != 5 || strcmp(p.out, expected) != 0 ||
		    strstr(p.err, "there is no network, whatever rules allow") == NULL)
			failed(p.out);
		program_free(&p);
		assert_int_equal(unlink("made"), 0);
		assert_int_equal(
		    scratch_value(&s,
			"SELECT count(*) FROM sandbox_run WHERE id = (SELECT max(id)"
			" FROM sandbox_run) AND backend = 'bubblewrap' AND net = 'none'"
			" AND notes LIKE '%no network%' AND id NOT IN"
			" (SELECT run_id FROM egress_flow WHERE run_id IS NOT NULL)"),
		    1);
	}
	/* What it cannot do is refused, and nothing takes its place. */
	RUN(3, "sandbox.backend", "touch ran", "--backend", "bubblewrap", "--publish", "0:3000");
	RUN(2, "run.inspect", "touch ran", "--backend", "bubblewrap", "--inspect");
	RUN(2, "usage.wrong", "touch ran", "--backend", "none");
	RUN(2, "usage.wrong", "touch ran", "--backend", "docker");
	assert_int_equal(access("ran", F_OK), -1);
	/* The state is not there, by whatever name. */
	snprintf(expected, sizeof(expected), "ls -A %.100s | wc -l", s.home.state);
	RUN(0, "0", expected, "--backend", "bubblewrap", "--rw", s.dir);
}

#define INSIDE                                                                                \
	"readlink /proc/self/ns/user; readlink /proc/self/ns/pid; echo $BASTION_SANDBOX_RUN;" \
	" echo $GIVEN"

/*
 * RE-07: a run within a run is held by the sandbox that is there, which is the run of the row: its
 * name inside and its namespaces say so. It is not held closer, and asks for no state of its own.
 */
static void
within_a_run(void **state)
{
	char command[4 * PATH_MAX], path[PATH_MAX], sql[512], user[64], pid[64], nonce[64];

	(void)state;
	needs_namespaces();
	assert_non_null(realpath(program_path(), path));
	snprintf(command, sizeof(command),
	    "export ASAN_OPTIONS=detect_leaks=0; %s run --allow '*' --env GIVEN=given -- sh -c '" INSIDE
	    "'; " INSIDE "; find ~ /tmp -name bastion.db",
	    path);
	run(command, "--ro", path, (char *)NULL);
	if (p.code != 0 || strstr(p.err, "this is a sandbox already") == NULL)
		failed(command);
	assert_int_equal(
	    sscanf(p.out, "user:[%63[0-9]] pid:[%63[0-9]] %63s given", user, pid, nonce), 3);
	snprintf(sql, sizeof(sql), "user:[%s]\npid:[%s]\n%s\ngiven\nuser:[%s]\npid:[%s]\n%s\n\n",
	    user, pid, nonce, user, pid, nonce);
	assert_string_equal(p.out, sql);
	program_free(&p);
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM sandbox_run WHERE nonce = '%s' AND user_ns = %s AND pid_ns = %s",
	    nonce, user, pid);
	assert_int_equal(scratch_value(&s, sql), 1);
	snprintf(command, sizeof(command),
	    "export ASAN_OPTIONS=detect_leaks=0; for o in --no-net --deny=x.example --ro=/usr "
	    "--inspect; do %s run $o -- touch ran; echo $?; done; %s sandbox try -- touch ran; echo $?;"
	    " %s run --quiet -- sh -c 'exit 9'",
	    path, path, path);
	run(command, "--ro", path, (char *)NULL);
	if (p.code != 9 || strcmp(p.out, "2\n2\n2\n2\n2\n") != 0 ||
	    strstr(p.err, "narrower from within: --no-net [run.within]") == NULL ||
	    strstr(p.err, "in which no other can be made [run.within]") == NULL ||
	    strstr(p.err, "sandbox already:") != NULL)
		failed(command);
	assert_int_equal(access("ran", F_OK), -1);
	program_free(&p);
}

/*
 * RE-06: without the markers a program is confined. The markers alone, outside, change nothing of
 * that, nor does the name of a run that is no more.
 */
static void
markers_prove_nothing(void **state)
{
	static const char says[] =
	    "grep -c 'NoNewPrivs:.1' /proc/self/status; readlink /proc/self/ns/pid;"
	    " echo $BASTION_SANDBOX_RUN";
	char outside[64], line[256], nonce[64];
	ssize_t n = readlink("/proc/self/ns/pid", outside, sizeof(outside) - 1);
	int marked;

	(void)state;
	needs_namespaces();
	outside[n > 0 ? n : 0] = '\0';
	scratch_text(&s, "SELECT max(nonce) FROM sandbox_run", nonce, sizeof(nonce));
	for (marked = 0; marked < 2; marked++) {
		if (marked) {
			setenv("BASTION_SANDBOXED", "1", 1);
			setenv("BASTION_SANDBOX_BACKEND", "native", 1);
			setenv("BASTION_SANDBOX_RUN", nonce, 1);
		}
		run(says, "--no-net", (char *)NULL);
		if (p.code != 0 || strncmp(p.out, "1\npid:", 6) != 0 ||
		    strstr(p.out, outside) != NULL || strstr(p.err, "sandbox already") != NULL)
			failed(says);
		snprintf(line, sizeof(line), "\n%s\n", nonce);
		assert_null(strstr(p.out, line));
		program_free(&p);
	}
	unsetenv("BASTION_SANDBOXED");
	unsetenv("BASTION_SANDBOX_BACKEND");
	unsetenv("BASTION_SANDBOX_RUN");
}

/* No daemon, and no state yet. */
static void
state_is_made(void **state)
{
	char *end = s.home.state + strlen(s.home.state);
	struct stat st;

	(void)state;
	needs_namespaces();
	memcpy(end, "-new", 5);
	RUN(7, "", "exit 7");
	assert_int_equal(stat(s.home.state, &st), 0);
	*end = '\0';
}

/*
 * Terminals.
 */

static void
talk(const char *flag, const char *command)
{
	const char *words[] = {
	    "run", "--env", "PATH=/usr/bin:/bin", flag, "--", "sh", "-c", command, NULL};

	program_talk(&t, &s, words);
}

static void
terminal_is_the_programs(void **state)
{
	struct winsize size = {.ws_row = 33, .ws_col = 101};

	(void)state;
	needs_namespaces();
	talk("--quiet",
	    "tty; stty size; trap 'stty size' WINCH; trap 'echo interrupted; got=1' INT;"
	    " echo ready >/dev/tty; while [ -z \"$got\" ]; do sleep 0.05; done;"
	    " printf '\\033[?1049h'; stty raw -echo; echo raw; head -c 2 | od -An -tx1; stty sane;"
	    " printf '\\033[?1049l'; exit 5");
	program_expect(&t, "/dev/pts/0");
	program_expect(&t, " 80");
	program_expect(&t, "ready");
	assert_int_equal(ioctl(t.fd, TIOCSWINSZ, &size), 0);
	program_expect(&t, "33 101");
	program_type(&t, "\003");
	program_expect(&t, "interrupted");
	program_expect(&t, "raw");
	program_type(&t, "\003\004");
	program_expect(&t, "03 04");
	program_ends(&t, 5);
}

static void
jobs_and_signals(void **state)
{
	(void)state;
	needs_namespaces();
	talk("--quiet", "PS1='type> ' exec bash --norc -i");
	program_expect(&t, "type> ");
	program_type(&t, "sh -c 'echo $((40+2)); exec sleep 60'\n");
	program_expect(&t, "42");
	program_type(&t, "\032");
	program_expect(&t, "Stopped");
	/* With a stopped job the shell does not end at once. */
	program_type(
	    &t, "kill %1; while kill -0 %1 2>/dev/null; do sleep 0.1; done; echo gone $((40+3))\n");
	program_expect(&t, "gone 43");
	program_type(&t, "exit 4\n");
	program_ends(&t, 4);
	talk("--quiet", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done");
	program_expect(&t, "ready");
	assert_int_equal(kill(t.pid, SIGTERM), 0);
	program_ends(&t, 9);
}

/*
 * The program is over, and the lane still waits for its connections: a signal then is nobody's but
 * ours, and above all not everybody's.  All of it in a pid namespace of its own, where a fault ends
 * the bystander and no more.
 */
static void
a_late_signal_is_nobodys(void **state)
{
	static const char script[] =
	    "sleep 60 & by=$!; "
	    "%s run --quiet --env PATH=/usr/bin:/bin --allow " SITE " -- bash -c '"
	    "trap \"\" TERM; exec 3<>/dev/tcp/" SITE
	    "/%d && echo hello >&3 && touch over && exit 3' &"
	    " run=$!; while [ ! -e over ] && kill -0 $run; do sleep 0.01; done; "
	    "for i in $(seq 60); do kill -TERM $run 2>/dev/null; sleep 0.01; done; "
	    "wait $run; echo run $?; kill -KILL $by; wait $by; echo bystander $?";
	char text[2 * PATH_MAX], path[PATH_MAX];
	const char *const words[] = {
	    "unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", text, NULL};
	uint16_t port = 0;
	int fd;

	(void)state;
	needs_namespaces();
	if (system("unshare --mount --pid --fork --mount-proc true 2>/dev/null") != 0)
		skip();
	assert_int_not_equal(fd = netns_listen(NETNS_SITE, &port), -1);
	assert_non_null(realpath(program_path(), path));
	snprintf(text, sizeof(text), script, path, port);
	program_of(&p, &s, words);
	close(fd);
	if (strcmp(p.out, "run 3\nbystander 137\n") != 0)
		failed(text);
	program_free(&p);
	assert_int_equal(unlink("over"), 0);
}

/*
 * A daemon.
 */

static void
daemon_does(const char *verb)
{
	program_run(&p, &s, NULL, (const char *const[]){verb, NULL});
	if (p.code != 0)
		failed(verb);
	program_free(&p);
}

/* Where the database is, or is not, for whoever would open it by its name. */
static void
database_moves(bool back)
{
	char here[PATH_MAX], aside[PATH_MAX];

	home_path(&s.home, "bastion.db", here);
	home_path(&s.home, "aside", aside);
	assert_int_equal(back ? rename(aside, here) : rename(here, aside), 0);
}

/* The daemon of this state writes the rows of a run, whose process opens no database; it opens one
 * for what the program wants of the internet. */
static void
the_daemon_writes_the_rows(void **state)
{
	struct egress_rule rule = {.uid = -1, .suffix = SITE, .port = 8080};
	int64_t id, runs;

	(void)state;
	needs_namespaces();
	daemon_does("start");
	RUN(0, "", "true"); /* who decides opens the database with the first */
	runs = scratch_value(&s, "SELECT count(*) FROM sandbox_run");
	database_moves(false);
	RUN(7, "", "exit 7");
	database_moves(true);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM sandbox_run"), runs + 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM sandbox_run AS r JOIN process AS p"
			      " ON p.id = r.process_id WHERE r.state = 'ended' AND exit_code = 7"
			      " AND r.program = 'sh' AND r.words = 3 AND r.net = 'sockets'"
			      " AND r.uid = p.uid AND p.program = 'bastion'"
			      " AND r.id = (SELECT max(id) FROM sandbox_run)"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'sandbox_run'"
					   " AND entity_id = (SELECT max(id) FROM sandbox_run)"
					   " AND who GLOB 'person:*(0)'"),
	    3);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	RUN(0, "from the site", "curl -sS http://" SITE ":8080/page");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'done'"
					   " AND run_id = (SELECT max(id) FROM sandbox_run)"),
	    1);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_forget(s.db, 0, SITE, &id), 0);
	/* What a rule holds, and what cannot start, is said as without it. */
	RUN(2, "sandbox.program", "true", "--env", "PATH=/nowhere");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM sandbox_run WHERE state = 'failed'"
					   " AND id = (SELECT max(id) FROM sandbox_run)"),
	    1);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 1 WHERE name = 'sandbox.live'"), 0);
	talk("--quiet", "echo up; read x; exit 5");
	program_expect(&t, "up");
	RUN(75, "sandbox.busy", "true");
	program_type(&t, "\n");
	program_ends(&t, 5);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 256 WHERE name = 'sandbox.live'"), 0);
}

/* Nobody but its process says what became of a run; and that says it also where the daemon ends. */
static void
a_run_outlives_the_daemon(void **state)
{
	static const char LIVE[] = "SELECT max(id) FROM sandbox_run WHERE state = 'running'";
	char command[512];
	int64_t id;

	(void)state;
	needs_namespaces();
	talk("--quiet", "echo up; read x; exit 9");
	program_expect(&t, "up");
	while ((id = scratch_value(&s, LIVE)) < 1)
		usleep(1000);
	snprintf(command, sizeof(command),
	    "curl -sS --unix-socket %s/control.sock -H 'Content-Type: application/json'"
	    " -d '{\"state\":\"ended\",\"exit\":0}' http://x/v1/runs/%lld | grep -q run.over",
	    s.home.run, (long long)id);
	assert_int_equal(system(command), 0);
	assert_int_equal(scratch_value(&s, LIVE), id);
	daemon_does("stop");
	program_type(&t, "\n");
	program_ends(&t, 9);
	snprintf(command, sizeof(command),
	    "SELECT exit_code FROM sandbox_run WHERE state = 'ended' AND id = %lld", (long long)id);
	assert_int_equal(scratch_value(&s, command), 9);
}

/* A daemon that has another state is not ours, wherever it listens. */
static void
another_daemon_is_not_asked(void **state)
{
	struct scratch other;

	(void)state;
	needs_namespaces();
	assert_int_equal(chdir(was), 0);
	scratch_make(&other, HOME_BOX);
	assert_int_equal(chdir(project), 0);
	daemon_does("start");
	strcpy(other.home.run, s.home.run);
	program_run(
	    &p, &other, NULL, (const char *const[]){"run", "--", "sh", "-c", "exit 6", NULL});
	assert_int_equal(p.code, 6);
	program_free(&p);
	assert_int_equal(
	    scratch_value(&other, "SELECT count(*) FROM sandbox_run WHERE state = 'ended'"), 1);
	daemon_does("stop");
	assert_int_equal(chdir(was), 0);
	scratch_drop(&other);
	assert_int_equal(chdir(project), 0);
}

/* SEG-10, SEG-13, SEG-15: one question for one destination, however many wait; none for others. */
static void
asked_once(void **state)
{
	(void)state;
	needs_namespaces();
	/* Were there another question, it would wait for an answer that nobody types. */
	talk("--ask",
	    "for i in $(seq 25); do curl -sS http://site.example.test:8080/page >/tmp/$i & done; wait;"
	    " curl -sS http://site.example.test:8080/page >/tmp/26;"
	    " echo $(cat /tmp/[0-9]* | grep -c 'from the site') arrived");
	program_expect(&t, "may it reach site.example.test:8080?");
	program_type(&t, "y");
	program_expect(&t, "26 arrived");
	program_ends(&t, 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_rule WHERE suffix = 'site.example.test'"
			      " AND run_id = (SELECT max(id) FROM sandbox_run)"),
	    1);
	talk("--ask", "curl -sS --cacert c https://site.example.test:8443/page;"
		      " curl -sS http://site.example.test:8080/page; echo over");
	program_expect(&t, "site.example.test:8443?");
	program_type(&t, "n");
	program_expect(&t, "egress.denied");
	program_expect(&t, "site.example.test:8080?");
	program_type(&t, "a");
	program_expect(&t, "from the site");
	program_expect(&t, "over");
	program_ends(&t, 0);
	/* Remembered: nobody is asked again. */
	RUN(0, "from the site", "curl -sS http://site.example.test:8080/page");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_may"
					   " WHERE what = 'site.example.test' AND port = 8080"),
	    1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow"
			      " WHERE code = 'egress.unknown' AND port = 8443"
			      " AND run_id = (SELECT max(run_id) - 1 FROM egress_flow)"),
	    0);
}

/*
 * SEG-11: who does not answer in time has said no. SEG-12: and is not asked any more: what is typed
 * then is the program's, and allows nothing.
 */
static void
asked_too_long(void **state)
{
	(void)state;
	needs_namespaces();
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 100 WHERE name = 'run.ask_ms'"), 0);
	talk("--ask",
	    "curl -sS http://other.example.test:8080/page; echo over; read -r x; echo got-$x;"
	    " curl -sS http://other.example.test:8080/page; echo done");
	program_expect(&t, "may it reach other.example.test:8080?");
	program_expect(&t, "egress.denied");
	program_expect(&t, "over");
	program_type(&t, "y\n");
	program_expect(&t, "got-y");
	program_expect(&t, "egress.denied");
	program_expect(&t, "done");
	program_ends(&t, 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_rule"
			      " WHERE suffix = 'other.example.test' AND verdict = 'allow'"),
	    0);
	program_run(&p, &s, NULL, (const char *const[]){"run", "--ask", "--", "true", NULL});
	/* A test may have a terminal of its own. */
	assert_true(p.code == 0 || p.code == 3);
	program_free(&p);
}

/* CEG-5: a rule that is made, or forgotten, while a program runs holds for its next connection. */
static void
rules_hold_at_once(void **state)
{
	struct egress_rule rule = {.uid = -1, .suffix = SITE, .port = 8080};
	int64_t id;

	(void)state;
	needs_namespaces();
	scratch_open(&s, ROLE_PERSON);
	egress_rule_forget(s.db, 0, SITE, &id);
	talk("--quiet", "while read -r x; do curl -sS http://" SITE ":8080/page; done");
	program_type(&t, "\n");
	program_expect(&t, "egress.unknown");
	assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	program_type(&t, "\n");
	program_expect(&t, "from the site");
	rule.deny = true;
	assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	program_type(&t, "\n");
	program_expect(&t, "egress.denied");
	assert_int_equal(egress_rule_forget(s.db, 0, SITE, &id), 0);
	program_type(&t, "\n");
	program_expect(&t, "egress.unknown");
	program_type(&t, "\004");
	program_over(&t);
}

/* Nothing is left: not a connection, not a rule, not a run. */
static void
nothing_is_left(void **state)
{
	(void)state;
	needs_namespaces();
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_flows"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_sandboxes"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'lost'"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clients_reach_what_is_allowed),
	    cmocka_unit_test(what_knows_no_proxy_is_carried),
	    cmocka_unit_test(tunnels_are_looked_into),
	    cmocka_unit_test(trust_is_the_runs),
	    cmocka_unit_test(requests_and_tokens),
	    cmocka_unit_test(denied_says_why),
	    cmocka_unit_test(network_is_what_was_allowed),
	    cmocka_unit_test(no_lane_no_run),
	    cmocka_unit_test(rights_are_refused),
	    cmocka_unit_test(pip_installs),
	    cmocka_unit_test(npm_installs),
	    cmocka_unit_test(ssh_agent_is_shown),
	    cmocka_unit_test(gpg_agent_is_shown),
	    cmocka_unit_test(a_port_is_published),
	    cmocka_unit_test(a_port_is_the_persons),
	    cmocka_unit_test(no_port_no_run),
	    cmocka_unit_test(nothing_else_gets_out),
	    cmocka_unit_test(static_program_is_held),
	    cmocka_unit_test(bastion_is_invisible),
	    cmocka_unit_test(folder_home_and_system),
	    cmocka_unit_test(home_is_no_variables_word),
	    cmocka_unit_test(exit_codes_pass),
	    cmocka_unit_test(no_namespaces_no_run),
	    cmocka_unit_test(bubblewrap_has_no_lane),
	    cmocka_unit_test(within_a_run),
	    cmocka_unit_test(markers_prove_nothing),
	    cmocka_unit_test(state_is_made),
	    cmocka_unit_test(terminal_is_the_programs),
	    cmocka_unit_test(jobs_and_signals),
	    cmocka_unit_test(a_late_signal_is_nobodys),
	    cmocka_unit_test(the_daemon_writes_the_rows),
	    cmocka_unit_test(a_run_outlives_the_daemon),
	    cmocka_unit_test(another_daemon_is_not_asked),
	    cmocka_unit_test(asked_once),
	    cmocka_unit_test(asked_too_long),
	    cmocka_unit_test(rules_hold_at_once),
	    cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
