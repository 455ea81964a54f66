/* test_clients.c: programs of others through each surface of the lane: curl, wget, git, python,
 * node. */
#include <sys/prctl.h>
#include <sys/wait.h>

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

#include "tests/rig.h"
#include "tests/netns.h"

static struct scratch s;
static bool isolated;
static pid_t origins[2];
static char out[65536];

/* Run a shell command with where everything is in its environment; return its exit code. */
static int
shell(const char *command)
{
	char line[8192];
	size_t n = 0, k;
	FILE *f;

	snprintf(line, sizeof(line),
	    "{ dir=%s http=http://127.0.0.1:%d socks=socks5h://127.0.0.1:%d unix=socks5h://localhost%s "
	    "site=" NETNS_SITE "; export HOME=$dir GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0; "
	    "unset http_proxy https_proxy all_proxy no_proxy; %s; } 2>&1",
	    s.dir, rig_http, rig_socks, rig_unix, command);
	assert_non_null(f = popen(line, "re"));
	while ((k = fread(out + n, 1, sizeof(out) - n - 1, f)) > 0)
		n += k;
	out[n] = '\0';
	return WEXITSTATUS(pclose(f));
}

static void
says(const char *command, const char *text)
{
	int code = shell(command);

	if (code != 0 || strstr(out, text) == NULL)
		fail_msg("%s: %d, %s", command, code, out);
}

static void
origin_start(int i, const char *port, const char *certificate)
{
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	if ((origins[i] = netns_fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 1);
		execlp("python3", "python3", "tests/egress/origin.py", NETNS_SITE, port, s.dir,
		    certificate, (char *)NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static int
set_up(void **state)
{
	char certificate[128];

	(void)state;
	if (!(isolated = netns_enter()))
		return 0;
	scratch_make(&s, HOME_BOX);
	snprintf(certificate, sizeof(certificate), "%s/cert.pem", s.dir);
	if (shell(
		"cd $dir && echo from the site >page && "
		"openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 2 -subj /CN=site "
		"-addext subjectAltName=IP:" NETNS_SITE
		",DNS:site.example.test 2>log && cat k c >cert.pem && "
		"git init -q -b main work && cd work && git config user.email a@b && git config user.name a && "
		"echo one >file && git add file && git commit -qm one && "
		"git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info") !=
	    0) {
		print_error("%s\n", out);
		isolated = false;
		return -1;
	}
	origin_start(0, "8080", NULL);
	origin_start(1, "8443", certificate);
	rig_start(&s);
	rig_name("site.example.test", NETNS_SITE, 60, 0);
	return 0;
}

static int
tear_down(void **state)
{
	int i;

	(void)state;
	if (!isolated)
		return 0;
	rig_stop(&s);
	for (i = 0; i < 2; i++) {
		kill(origins[i], SIGKILL);
		waitpid(origins[i], NULL, 0);
	}
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

/* SEG-05: SEG-08: */
static void
curl_on_each_surface(void **state)
{
	(void)state;
	needs_namespaces();
	says("curl -sS -x $http http://$site:8080/page", "from the site");
	says("curl -sS -x $http http://site.example.test:8080/page", "from the site");
	says("curl -sS -p -x $http http://$site:8080/page", "from the site");
	says("curl -sS --cacert $dir/c -x $http https://$site:8443/page", "from the site");
	says("curl -sS --cacert $dir/c -x $socks https://site.example.test:8443/page",
	    "from the site");
	says("curl -sS -x $socks http://$site:8080/page", "from the site");
	says("curl -sS -x $unix http://site.example.test:8080/page", "from the site");
	/* A body that is sent after 100 Continue, one in chunks, and two requests, each on its own.
	 */
	says(
	    "head -c 300000 /dev/zero | tr '\\0' x >$dir/big; "
	    "curl -sS -x $http --data-binary @$dir/big http://$site:8080/page | cmp - $dir/big && echo same",
	    "same");
	says("curl -sS -x $http http://$site:8080/page http://$site:8080/page | wc -l", "2");
	assert_int_not_equal(shell("curl -sSf -x $http http://127.0.0.1:8080/page"), 0);
	says("curl -sS -x $http http://127.0.0.1:8080/page", "[egress.this_machine]");
	assert_int_equal(shell("curl -sS -x $socks http://127.0.0.1:8080/page"), 97);
}

static void
wget_and_git(void **state)
{
	(void)state;
	needs_namespaces();
	if (shell("command -v wget") == 0) {
		says("http_proxy=$http wget -qO- http://$site:8080/page", "from the site");
		says("https_proxy=$http wget -qO- --ca-certificate=$dir/c https://$site:8443/page",
		    "from the site");
	}
	says(
	    "git -c http.proxy=$http clone -q http://$site:8080/repo.git $dir/a && cat $dir/a/file",
	    "one");
	says(
	    "git -c http.proxy=$socks clone -q http://$site:8080/repo.git $dir/b && cat $dir/b/file",
	    "one");
	says(
	    "GIT_SSL_CAINFO=$dir/c git -c http.proxy=$http clone -q https://site.example.test:8443/repo.git"
	    " $dir/c2 && cat $dir/c2/file",
	    "one");
}

static void
python_and_node(void **state)
{
	(void)state;
	needs_namespaces();
	says("http_proxy=$http python3 -c 'import urllib.request as u;"
	     " print(u.urlopen(\"http://'$site':8080/page\").read().decode())'",
	    "from the site");
	says("https_proxy=$http SSL_CERT_FILE=$dir/c python3 -c 'import urllib.request as u;"
	     " print(u.urlopen(\"https://'$site':8443/page\").read().decode())'",
	    "from the site");
	if (shell("command -v node") != 0)
		return;
	says("node -e 'require(\"http\").get(process.argv[1], {path: \"http://'$site':8080/page\"},"
	     " r => r.pipe(process.stdout))' $http",
	    "from the site");
	says(
	    "node -e 'const h = require(\"http\"), c = h.request(process.argv[1], {method: \"CONNECT\","
	    " path: \"'$site':8080\"}); c.on(\"connect\", (r, s) => { h.get({createConnection: () => s,"
	    " path: \"/page\", headers: {connection: \"close\"}}, r => r.pipe(process.stdout)); }); c.end()' $http",
	    "from the site");
	/* fetch, where this node knows proxies of the environment. */
	if (shell("node -e 'process.exit(process.versions.node.split(\".\")[0] >= 24 ? 0 : 1)'") ==
	    0)
		says("NODE_USE_ENV_PROXY=1 http_proxy=$http node -e"
		     " 'fetch(\"http://'$site':8080/page\").then(r => r.text()).then(console.log)'",
		    "from the site");
}

/* All of it is in the rows, and nothing is left open. */
static void
all_of_it_is_in_the_rows(void **state)
{
	(void)state;
	needs_namespaces();
	rig_until(&s, 0, "SELECT count(*) FROM live_flows");
	assert_true(
	    scratch_value(&s, "SELECT count(*) FROM egress_flow WHERE state = 'done'") > 10);
	assert_int_equal(
	    scratch_value(
		&s, "SELECT count(*) FROM egress_flow WHERE state NOT IN ('done', 'refused')"),
	    0);
	assert_int_equal(scratch_value(&s, "SELECT count(DISTINCT surface) FROM egress_flow"), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(curl_on_each_surface),
	    cmocka_unit_test(wget_and_git),
	    cmocka_unit_test(python_and_node),
	    cmocka_unit_test(all_of_it_is_in_the_rows),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
