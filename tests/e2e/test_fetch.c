/* test_fetch.c: what a Host has fetched by a real daemon: a tree, from where the database judged
 * that it may; and by programs of added ops, which reach what their manifests say. */
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/program_lane.h"
#include "tests/driver.h"
#include "tests/netns.h"

#define NAME "git.example.test"
#define TWO  "two.example.test"

static struct driver d;
static struct said said;
static bool isolated;
static char web[64], tree[128], other[128];

static void
shell(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

/* The same, in the folder of the web. */
static void
shell_at(const char *script)
{
	char command[4096];
	int n = snprintf(command, sizeof(command), "set -e; cd %s; ", web);

	snprintf(command + n, sizeof(command) - (size_t)n, "%s", script);
	if (system(command) != 0)
		fail_msg("%s", command);
}

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("does not say %s: %s%s", text, said.out, said.err);
}

static bool
bound(const char *name, const char *to)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", web, name);
	return mount(path, to, NULL, MS_BIND, NULL) == 0;
}

static void
serve(void)
{
	char site[128], pem[128], c;
	int ready[2];

	snprintf(site, sizeof(site), "%s/site", web);
	snprintf(pem, sizeof(pem), "%s/site.pem", web);
	assert_int_equal(pipe(ready), 0);
	if (netns_fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 1);
		execlp("python3", "python3", "tests/egress/origin.py", NETNS_SITE, "443", site, pem,
		    (char *)NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static int
begin(void **state)
{
	(void)state;
	if (!(isolated = netns_enter()))
		return 0;
	strcpy(web, "/tmp/bastion-web-XXXXXX");
	assert_non_null(mkdtemp(web));
	assert_int_equal(chmod(web, 0755), 0);
	shell(
	    "cd %s && printf '127.0.0.1 localhost\\n" NETNS_SITE " " NAME " " TWO "\\n10.9.0.2 " TWO
	    "\\n' >hosts"
	    " && echo hosts: files dns >nsswitch && openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out ca.pem"
	    " -days 2 -subj /CN=site -addext subjectAltName=DNS:" NAME ",DNS:" TWO
	    " 2>log && cat k ca.pem >site.pem",
	    web);
	shell(
	    "mkdir %s/site && cd %s/site && git init -q -b main work && cd work && echo one >f && git add f &&"
	    " git -c user.name=t -c user.email=t@e commit -qm 1 && git clone -q --bare . ../repo.git &&"
	    " cd ../repo.git && git update-server-info",
	    web, web);
	/* The home of whoever ops run as is one of the test's own. */
	shell("mkdir -p %s/home/kept %s/home/open && chmod 755 %s/home", web, web, web);
	isolated = unshare(CLONE_NEWNS) == 0 &&
		   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		   bound("home", getpwuid(geteuid())->pw_dir) && bound("hosts", "/etc/hosts") &&
		   bound("nsswitch", "/etc/nsswitch.conf") &&
		   bound("ca.pem", "/etc/ssl/certs/ca-certificates.crt");
	if (!isolated)
		return 0;
	serve();
	snprintf(tree, sizeof(tree), "%s/tree", web);
	snprintf(other, sizeof(other), "%s/other", web);
	shell("umask 022 && git init -q %s && git -C %s remote add origin https://" NAME
	      "/repo.git",
	    tree, tree);
	shell("umask 022 && git init -q %s && git -C %s remote add origin https://" TWO "/repo.git",
	    other, other);
	driver_first_day(&d);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) > 0 FROM own_address");
	return 0;
}

static int
end(void **state)
{
	(void)state;
	if (isolated)
		driver_drop(&d);
	if (web[0] != '\0')
		shell("rm -r %s", web);
	return 0;
}

static void
needs_a_network(void)
{
	if (isolated)
		return;
	print_message("skipped: no network or mount namespace for us here\n");
	skip();
}

static int64_t
dials(void)
{
	return driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM verb_dial");
}

/* DST-1: what is declared as an address of a network is refused before a person is asked. */
static void
a_declared_address_is_refused_as_it_arrives(void **state)
{
	int64_t questions;

	(void)state;
	needs_a_network();
	questions = driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval");
	driver_refused(&said, 126, "egress.network", NULL, "on", d.box, "git:fetch", tree,
	    "192.168.1.5", NULL);
	driver_refused(&said, 126, "egress.network", NULL, "on", d.box, "git:fetch", tree,
	    "[64:ff9b::c0a8:105]", NULL);
	driver_refused(
	    &said, 126, "egress.own", NULL, "on", d.box, "git:fetch", tree, NETNS_BOX, NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM approval"), questions);
}

/* The whole walk: asked, looked at, approved, run dry, run; each reach is a row before it is made.
 */
static void
a_tree_is_fetched(void **state)
{
	char id[24];

	(void)state;
	needs_a_network();
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "git:fetch", tree, NAME,
	    "--uses", "3", NULL);
	/* The person sees where it would go, and nothing is dialled for it. */
	snprintf(id, sizeof(id), "%" PRId64, driver_question(&d));
	driver_does(&said, NULL, "approvals", "dry", id, NULL);
	says("\"destination\":{\"host\":\"" NAME "\",\"port\":443,\"addresses\":[\"" NETNS_SITE
	     "\"]}");
	assert_int_equal(dials(), 0);
	driver_approve(&d, driver_question(&d));
	driver_does(&said, NULL, "on", d.box, "git:fetch", tree, NAME, "--dry-run", "--json", NULL);
	says("\"dry\":true,\"refs\":[{\"ref\":\"main\",\"before\":null");
	assert_int_equal(dials(), 1);
	shell("test -z \"$(git -C %s for-each-ref)\"", tree);
	driver_does(&said, NULL, "on", d.box, "git:fetch", tree, NAME, "--json", NULL);
	says("\"dry\":false,\"refs\":[{\"ref\":\"main\",\"before\":null");
	assert_null(strstr(said.out, "destination"));
	assert_int_equal(dials(), 2);
	driver_does(&said, NULL, "ops", "dials", "--json", NULL);
	says("\"what\":\"" NAME ":443\"");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), 1);
	shell(
	    "test \"$(git -C %s rev-parse origin/main)\" = \"$(git -C %s/site/work rev-parse main)\"",
	    tree, web);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM audit AS a JOIN audit AS b ON b.seq > a.seq"
		" WHERE a.entity = 'verb_dial' AND b.entity = 'op_run' AND b.action = 'done'"
		"   AND b.entity_id = a.body ->> '$.run'"),
	    2);
}

/* DST-2: a name with one address of a network among its own is not reached at all. */
static void
a_name_with_a_private_address_is_not_reached(void **state)
{
	int64_t before;

	(void)state;
	needs_a_network();
	before = dials();
	driver_grant(&d, "git:fetch", other, NULL, "3", "1d");
	assert_int_not_equal(
	    driver_run(&said, NULL, "on", d.box, "git:fetch", other, "--json", NULL), 0);
	says("egress.network");
	shell("test -z \"$(git -C %s for-each-ref)\"", other);
	assert_int_equal(dials(), before);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT exit_code FROM op_run WHERE op = 'git:fetch' ORDER BY id DESC LIMIT 1"),
	    126);
	/* What was not reached is no strike either: the Host cannot know what a name leads to. */
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM quarantine"), 0);
}

/*
 * Programs of added ops.
 */

#define SECRET "s3cr3t-0123456789abcdef"

/* Sign what was said last, as "sig". (Codes would have the test wait for their next step.) */
static void
sign(void)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/bytes", web);
	assert_non_null(f = fopen(path, "w"));
	fputs(said.out, f);
	fclose(f);
	shell("cd %s && ssh-keygen -q -Y sign -n bastion -f key <bytes >sig 2>log", web);
}

/* Approve the newest question. */
static void
approve(void)
{
	char id[24], sig[128];

	snprintf(id, sizeof(id), "%" PRId64, driver_question(&d));
	driver_does(&said, NULL, "approvals", "show", id, "--bytes", NULL);
	sign();
	snprintf(sig, sizeof(sig), "%s/sig", web);
	driver_does(&said, NULL, "approve", id, "--signature", sig, NULL);
}

/* Ask for ${op} with ${word} (NULL: none), be told 77, and approve it. */
static void
grant(const char *op, const char *word)
{
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "--uses", "9", op, word, NULL);
	approve();
}

/* Add ${name}, which runs ${script} by sh, with the further ${members} of its manifest. */
static void
add(const char *name, const char *members, const char *script)
{
	char file[128], program[128], sig[128];
	FILE *f;

	snprintf(program, sizeof(program), "%s/%s.sh", web, name + 4);
	assert_non_null(f = fopen(program, "w"));
	fputs(script, f);
	fclose(f);
	snprintf(file, sizeof(file), "%s/%s.json", web, name + 4);
	assert_non_null(f = fopen(file, "w"));
	fprintf(f,
	    "{\"name\":\"%s\",\"summary\":\"try it\",\"interpreter\":\"/bin/sh\","
	    "\"program\":\"%s\",%s}",
	    name, program, members);
	fclose(f);
	driver_does(&said, NULL, "op", "add", file, "--bytes", NULL);
	sign();
	snprintf(sig, sizeof(sig), "%s/sig", web);
	driver_does(&said, NULL, "op", "add", file, "--signature", sig, NULL);
}

/* Frames and answers of all runs that hold ${text}. */
static int64_t
rows_with(const char *text)
{
	return driver_value(
	    &d, DRIVER_BOX, "SELECT count(*) FROM op_output WHERE instr(frame, '%s') > 0", text);
}

/* A program reaches what was signed, whether rules allow that or not, and nothing else. */
static void
a_program_reaches_its_destinations(void **state)
{
	char key[128];

	(void)state;
	needs_a_network();
	shell(
	    "echo from the site >%s/site/page; ssh-keygen -q -t ed25519 -N '' -f %s/key", web, web);
	snprintf(key, sizeof(key), "%s/key.pub", web);
	driver_does(&said, NULL, "factor", "add", "ssh", key, NULL);
	add("run:reach", "\"destinations\":[\"" NAME ":443\"]",
	    "curl -sS -m 20 https://" NAME "/page || exit 9\n"
	    "curl -sS -m 20 https://" NAME ":8443/page 2>&1 && exit 8\n"
	    "curl -sS -m 20 https://" NETNS_SITE "/page 2>&1 && exit 7\n"
	    "curl -sS -m 20 https://" TWO "/page 2>&1 && exit 6\n"
	    "curl -sS -m 20 https://below." NAME "/page 2>&1 && exit 5\n"
	    "exit 0\n");
	/* What the box allows to everybody is none of its business. */
	driver_does(&said, NULL, "egress", "allow", "*", NULL);
	grant("run:reach", NULL);
	driver_does(&said, NULL, "on", d.box, "run:reach", "--json", NULL);
	says("from the site");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM program_flows WHERE op = 'run:reach'"
			     " AND what = '" NAME ":443' AND dialled = '" NETNS_SITE "'"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM program_flows WHERE code = 'egress.unknown'"),
	    4);
	driver_does(&said, NULL, "ops", "flows", "--json", NULL);
	says("\"what\":\"" NAME ":443\"");
	/* A dry run reaches nothing: what a program does out there is not taken back. */
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "run:reach", "--dry-run", "--json", NULL), 9);
	/* What a person denies stays denied. */
	driver_does(&said, NULL, "egress", "deny", NAME, NULL);
	assert_int_equal(driver_run(&said, NULL, "on", d.box, "run:reach", "--json", NULL), 9);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM program_flows WHERE code = 'egress.denied'"),
	    1);
	driver_does(&said, NULL, "egress", "forget", "2", NULL);
	driver_does(&said, NULL, "egress", "forget", "1", NULL);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_sandboxes");
}

/* A program has its credential for as long as it runs, where nobody else looks, and it is in no
 * row. */
static void
a_credential_is_lent(void **state)
{
	static const char script[] =
	    "cd /run/credential || exit 9\n"
	    "stat -c '%a %u %n' . deploy\n"
	    "cat deploy; echo; head -c 9 deploy; tail -c +10 deploy; echo\n"
	    "base64 -w0 deploy\n"
	    "echo \"at $BASTION_CREDENTIAL\"; env | grep -c s3cr3t\n"
	    "touch \"$OLDPWD/$(cat deploy)\"\n"
	    "printf 'header = \"Authorization: Bearer %s\"' $(cat deploy) >/tmp/c\n"
	    "curl -sS -m 20 -K /tmp/c https://" NAME "/whoami\n";
	char members[512], id[24];

	(void)state;
	needs_a_network();
	driver_does(&said, SECRET "\n", "token", "add", "deploy", "--host", NAME, NULL);
	snprintf(members, sizeof(members),
	    "\"credential\":\"deploy\",\"destinations\":[\"" NAME
	    ":443\"],\"writes\":[\"%s/site\"]",
	    web);
	add("run:deploy", members, script);
	/* Whose secret it gets, and how far it gets with that, is what is signed. */
	shell("grep -qx 'credential: \"deploy\"' %s/bytes", web);
	shell("grep -qx 'reaches: \\[\"" NAME ":443\"\\]' %s/bytes", web);
	grant("run:deploy", NULL);
	/* And so is what each grant of it stands on. */
	shell("head -n 1 %s/bytes | grep -qx 'bastion approval 3'", web);
	shell("grep -qx 'credential: \"deploy\"' %s/bytes", web);
	shell("grep -qx 'reaches: \\[\"" NAME ":443\"\\]' %s/bytes", web);
	driver_does(&said, NULL, "on", d.box, "run:deploy", NULL);
	says("700 ");
	says("400 ");
	says("at /run/credential/deploy\n0\n");
	/* The server got it: what it heard has this digest. */
	says("7b097f3320598515d2aad0d269d5964531296ce3bd15b93afcaa3a20c8299b07");
	assert_null(strstr(said.out, SECRET));
	assert_int_equal(rows_with(SECRET), 0);
	assert_int_equal(rows_with("czNjcjN0LTAxMjM0NTY3ODlhYmNkZWY"), 0);
	assert_true(rows_with("***********************") > 0);
	shell("rm %s/site/" SECRET, web);
	shell("! ls -d /dev/shm/bastion-op-*/[0-9]* 2>/dev/null");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM audit AS a JOIN program_lend AS l"
			     " ON l.op_run_id = a.body ->> '$.run'"
			     " WHERE a.action = 'lent' AND a.body ->> '$.name' = 'deploy'"),
	    1);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT used_at > 0 FROM tokens WHERE name = 'deploy'"),
	    1);
	/* Who is asked about it sees that as well. */
	snprintf(id, sizeof(id), "%" PRId64,
	    driver_value(&d, DRIVER_BOX, "SELECT max(id) FROM approval WHERE op = 'run:deploy'"));
	driver_does(&said, NULL, "approvals", "show", id, NULL);
	says("it reaches " NAME ":443; it gets the token deploy.");
	/* Its dry run has none. */
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "run:deploy", "--dry-run", "--json", NULL), 9);
}

static void
signed_builder(const char *builder, const char *source, const char *code)
{
	char file[128], program[128];
	FILE *f;

	snprintf(program, sizeof(program), "%s/hello.src", web);
	assert_non_null(f = fopen(program, "w"));
	fputs(source, f);
	fclose(f);
	snprintf(file, sizeof(file), "%s/built.json", web);
	assert_non_null(f = fopen(file, "w"));
	fprintf(f,
	    "{\"name\":\"run:built\",\"summary\":\"try it\",\"program\":\"%s\",\"interpreter\":\"/bin/sh\","
	    "\"builder\":[\"/bin/sh\",\"-c\",\"%s\",\"x\",\"$in\",\"$out\"]}",
	    program, builder);
	fclose(f);
	if (code != NULL) {
		driver_refused(&said, 3, code, NULL, "op", "add", file, "--bytes", NULL);
		return;
	}
	driver_does(&said, NULL, "op", "add", file, "--bytes", NULL);
	sign();
	snprintf(program, sizeof(program), "%s/sig", web);
	driver_does(&said, NULL, "op", "add", file, "--signature", program, NULL);
}

/* What runs is what the builder made, as it was signed, whatever becomes of the source and of the
 * database. */
static void
what_was_built_runs(void **state)
{
	(void)state;
	needs_a_network();
	signed_builder("exit 3", "WORD", "manifest.build");
	signed_builder("true", "WORD", "manifest.build");
	signed_builder("ln -s /etc/passwd $2", "WORD", "manifest.build");
	/* It has no network, sees nothing of the machine's own, and changes nothing. */
	signed_builder(
	    "ls /srv /home /root >$2 2>/dev/null && exit 0; rm $2; curl -sm 5 https://" NAME,
	    "WORD", "manifest.build");
	signed_builder("sed s/WORD/hello/ $1 >$2; mkdir -p /build/out/a/b", "echo WORD\n", NULL);
	shell(
	    "grep -q '^builder: .*sha256' %s/bytes && grep -q '^built: sha256' %s/bytes", web, web);
	shell("! ls -d /dev/shm/bastion-op-*/out 2>/dev/null");
	grant("run:built", NULL);
	shell("echo echo other >%s/hello.src", web);
	driver_does(&said, NULL, "on", d.box, "run:built", NULL);
	says("hello\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM op_built AS b JOIN op_manifest AS m"
			     " ON m.id = b.manifest_id WHERE m.program_sha256 <> b.source_sha256"),
	    1);
	driver_does(&said, NULL, "op", "rm", "run:built", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM op_built"), 0);
}

/* "~" in a policy is the home of whoever ops run as, and not the root of the machine. */
static void
a_policy_knows_the_home_of_ops(void **state)
{
	const struct passwd *pw = getpwuid(geteuid());
	char members[256];

	(void)state;
	needs_a_network();
	assert_non_null(pw);
	snprintf(members, sizeof(members), "\"writes\":[\"%s/kept\"]", pw->pw_dir);
	add("run:home", members, "true\n");
	grant("run:home", NULL);
	driver_does(&said, NULL, "on", d.box, "run:home", NULL);
	driver_does(&said, NULL, "sandbox", "policy", "add", "deny_write", "~/open", NULL);
	driver_does(&said, NULL, "on", d.box, "run:home", NULL);
	driver_does(&said, NULL, "sandbox", "policy", "add", "deny_write", "~/kept", NULL);
	assert_int_equal(driver_run(&said, NULL, "on", d.box, "run:home", "--json", NULL), 126);
	says("policy.held");
	driver_does(&said, NULL, "sandbox", "policy", "remove", "deny_write", "~/kept", NULL);
	driver_does(&said, NULL, "sandbox", "policy", "remove", "deny_write", "~/open", NULL);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_sandboxes");
}

/* A registry in the other network, with one image of one file, whose digest is in "digest". */
static void
serve_image(void)
{
	static const char registry[] =
	    "mkdir registry images && printf 'version: 0.1\nlog:\n  level: error\n  accesslog:\n"
	    "    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: %s/registry\nhttp:\n"
	    "  addr: " NETNS_SITE ":5000\n  tls:\n    certificate: %s/ca.pem\n    key: %s/k\n'"
	    " $PWD $PWD $PWD >registry.yml\n";
	static const char image[] =
	    "put() { h=$(sha256sum <$1 | cut -c-64); cp $1 oci/blobs/sha256/$h; echo sha256:$h; }\n"
	    "part() { printf '{\"mediaType\":\"application/vnd.oci.image.%s\",\"digest\":\"%s\",\"size\":%d}'"
	    "  $1 $(put $2) $(stat -c %s $2); }\n"
	    "mkdir -p oci/blobs/sha256; echo hello >file; tar -cf layer file; d=$(sha256sum <layer | cut -c-64); gzip -n layer\n"
	    "printf '{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{},\"rootfs\":{\"type\":\"layers\","
	    "\"diff_ids\":[\"sha256:%s\"]}}' $d >conf\n"
	    "printf '{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
	    "\"config\":%s,\"layers\":[%s]}' \"$(part config.v1+json conf)\" \"$(part layer.v1.tar+gzip layer.gz)\" >man\n"
	    "printf '{\"schemaVersion\":2,\"manifests\":[%s]}' \"$(part manifest.v1+json man)\" >oci/index.json\n"
	    "printf '{\"imageLayoutVersion\":\"1.0.0\"}' >oci/oci-layout; put man >digest\n"
	    "for i in 1 2 3 4 5 6 7 8 9; do\n"
	    "  skopeo copy -q oci:oci docker://" NAME ":5000/app:1 >log 2>&1 && exit 0; sleep 1\n"
	    "done; exit 1";
	char config[128];

	shell_at(registry);
	snprintf(config, sizeof(config), "%s/registry.yml", web);
	if (netns_fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
		execlp("docker-registry", "docker-registry", "serve", config, (char *)NULL);
		_exit(1);
	}
	shell_at(image);
}

/* A real client of a real registry, which knows nothing of a lane: an image, by its digest. */
static void
an_image_is_pulled(void **state)
{
	char members[512], script[256], digest[80];
	FILE *f;

	(void)state;
	needs_a_network();
	if (system("command -v skopeo docker-registry >/dev/null") != 0) {
		print_message("skipped: there is no skopeo, or no docker-registry\n");
		skip();
	}
	serve_image();
	snprintf(script, sizeof(script), "%s/digest", web);
	assert_non_null(f = fopen(script, "r"));
	assert_int_equal(fscanf(f, "%79s", digest), 1);
	fclose(f);
	snprintf(members, sizeof(members),
	    "\"destinations\":[\"" NAME ":5000\"],\"writes\":[\"%s/images\"],\"params\":["
	    "{\"name\":\"digest\",\"type\":\"string\",\"like\":\"sha256:*\",\"doc\":\"of the image\"}]",
	    web);
	snprintf(script, sizeof(script),
	    "exec skopeo --tmpdir /tmp copy -q \"docker://" NAME ":5000/app@$1\""
	    " \"oci:%s/images/app\" 2>&1\n",
	    web);
	add("run:pull", members, script);
	grant("run:pull", digest);
	driver_does(&said, NULL, "on", d.box, "run:pull", digest, NULL);
	shell("grep -q %s %s/images/app/index.json", digest, web);
	assert_true(driver_value(&d, DRIVER_BOX,
			"SELECT count(*) FROM program_flows WHERE op = 'run:pull'"
			" AND what = '" NAME ":5000' AND state = 'done'") > 0);
}

/* Storage of the test's own, in the place of root's. */
static void
store_elsewhere(void)
{
	static const char script[] =
	    "cp -r /etc/containers etc && printf '[storage]\ndriver = \"vfs\"\ngraphroot = \"%s/store\"\n"
	    "runroot = \"%s/storerun\"\n' $PWD $PWD >etc/storage.conf";

	shell_at(script);
	assert_true(bound("etc", "/etc/containers"));
}

/* A registry that says where its passwords are asked for: on another machine. */
static void
serve_elsewhere(void)
{
	static const char registry[] =
	    "sed 's/:5000/:5001/' registry.yml >elsewhere.yml && printf 'auth:\n  token:\n    realm: https://" TWO
	    "/token\n"
	    "    service: s\n    issuer: i\n    rootcertbundle: %s/ca.pem\n' $PWD >>elsewhere.yml";
	char config[128];

	shell_at(registry);
	snprintf(config, sizeof(config), "%s/elsewhere.yml", web);
	if (netns_fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
		execlp("docker-registry", "docker-registry", "serve", config, (char *)NULL);
		_exit(1);
	}
	shell("for i in 1 2 3 4 5 6 7 8 9; do curl -so /dev/null https://" NAME
	      ":5001/ && exit 0; sleep 1; done; exit 1");
}

/* An image comes from the registry that was judged, by the digest that the dry run told,
 * and from nowhere that the registry leads to. */
static void
an_image_is_pulled_by_a_verb(void **state)
{
	char digest[80], path[128], id[24];
	int64_t before;
	FILE *f;

	(void)state;
	needs_a_network();
	snprintf(path, sizeof(path), "%s/digest", web);
	if ((f = fopen(path, "r")) == NULL) {
		print_message("skipped: there is no skopeo, or no docker-registry\n");
		skip();
	}
	assert_int_equal(fscanf(f, "%79s", digest), 1);
	fclose(f);
	store_elsewhere();
	before = dials();
	driver_refused(&said, 2, "act.image", NULL, "on", d.box, "container:pull", "app:1", NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "container:pull",
	    NAME ":5000/app:1", "--uses", "3", NULL);
	snprintf(id, sizeof(id), "%" PRId64, driver_question(&d));
	driver_does(&said, NULL, "approvals", "dry", id, NULL);
	says("\"destination\":{\"host\":\"" NAME "\",\"port\":5000,");
	approve();
	driver_does(&said, NULL, "on", d.box, "container:pull", NAME ":5000/app:1", "--dry-run",
	    "--json", NULL);
	says(digest);
	says("\"layers\":1,\"here\":false}");
	shell("! grep -rqs " NAME " %s/store", web);
	driver_does(&said, NULL, "on", d.box, "container:pull", NAME ":5000/app:1", "--json", NULL);
	says("\"dry\":false");
	shell("test $(skopeo inspect --format '{{.Digest}}' containers-storage:" NAME
	      ":5000/app:1) = %s",
	    digest);
	driver_does(&said, NULL, "on", d.box, "container:pull", NAME ":5000/app:1", "--dry-run",
	    "--json", NULL);
	says("\"here\":true}");
	assert_int_equal(dials(), before + 3);
	serve_elsewhere();
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "container:pull",
	    NAME ":5001/app:1", "--anew", NULL);
	approve();
	assert_int_not_equal(driver_run(&said, NULL, "on", d.box, "container:pull",
				 NAME ":5001/app:1", "--json", NULL),
	    0);
	says("act.remote");
	says("leads to " TWO ":443,");
}

/* The other end of ${fd} hangs up. */
static void
hears_the_end(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c;

	assert_int_equal(poll(&p, 1, DRIVER_WAIT_MS), 1);
	assert_true(read(fd, &c, 1) <= 0);
	close(fd);
}

/* Sockets alone are worth nothing: the lane carries what rows say that a run reaches, once its own
 * user or root hands it over, and hangs up otherwise. */
static void
the_lane_takes_runs_alone(void **state)
{
	struct home home = {.role = HOME_BOX};
	int fd, sockets[LANE_SOCKETS];
	struct refusal r;
	char c;

	(void)state;
	needs_a_network();
	snprintf(home.run, sizeof(home.run), "%s", d.run[DRIVER_BOX]);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
	assert_int_not_equal(fd = lane_call(&home, &r), -1);
	assert_int_equal(
	    lane_hand(
		fd, driver_value(&d, DRIVER_BOX, "SELECT max(id) FROM sandbox_run"), sockets, &r),
	    0);
	hears_the_end(fd);
	assert_int_not_equal(fd = lane_call(&home, &r), -1);
	assert_int_equal(write(fd, "no run at all...", 16), 16);
	hears_the_end(fd);
	close(sockets[1]);
	assert_int_equal(recv(sockets[0], &c, 1, MSG_DONTWAIT), 0);
	close(sockets[0]);
}

/* HC-3: a run that cannot start says so, and leaves no credential behind; without the lane none
 * that reaches something starts. */
static void
what_cannot_start_leaves_nothing(void **state)
{
	const char *words[] = {"on", d.box, "run:long", "--json", NULL};
	char members[512];
	struct job job;

	(void)state;
	needs_a_network();
	snprintf(
	    members, sizeof(members), "\"credential\":\"deploy\",\"writes\":[\"%s/nowhere\"]", web);
	add("run:nowhere", members, "true\n");
	grant("run:nowhere", NULL);
	assert_int_not_equal(
	    driver_run(&said, NULL, "on", d.box, "run:nowhere", "--json", NULL), 0);
	says("{\"e\":{\"code\":");
	shell("! ls -d /dev/shm/bastion-op-*/[0-9]* 2>/dev/null");
	shell("mv %s/runs.sock %s/away", d.run[DRIVER_BOX], d.run[DRIVER_BOX]);
	assert_int_not_equal(driver_run(&said, NULL, "on", d.box, "run:deploy", "--json", NULL), 0);
	says("\"code\":\"op.lane\"");
	shell("mv %s/away %s/runs.sock", d.run[DRIVER_BOX], d.run[DRIVER_BOX]);
	shell("! ls -d /dev/shm/bastion-op-*/[0-9]* 2>/dev/null");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM op_run WHERE state = 'failed' AND op = 'run:nowhere'"),
	    1);
	/* With a lane that ends, the run ends. */
	add("run:long", "\"destinations\":[\"" NAME ":443\"]", "echo begun; sleep 600\n");
	grant("run:long", NULL);
	driver_start(&job, NULL, words);
	driver_until(
	    &d, DRIVER_BOX, 1, "SELECT count(*) FROM op_output WHERE frame LIKE '%%begun%%'");
	driver_kill(&d, DRIVER_BOX, "egress");
	assert_int_not_equal(driver_finish(&job, &said), 0);
	says("\"code\":\"op.lane\"");
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_sandboxes");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_declared_address_is_refused_as_it_arrives),
	    cmocka_unit_test(a_tree_is_fetched),
	    cmocka_unit_test(a_name_with_a_private_address_is_not_reached),
	    cmocka_unit_test(a_program_reaches_its_destinations),
	    cmocka_unit_test(a_credential_is_lent),
	    cmocka_unit_test(what_was_built_runs),
	    cmocka_unit_test(a_policy_knows_the_home_of_ops),
	    cmocka_unit_test(an_image_is_pulled),
	    cmocka_unit_test(an_image_is_pulled_by_a_verb),
	    cmocka_unit_test(the_lane_takes_runs_alone),
	    cmocka_unit_test(what_cannot_start_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
