/* verb_version.c: which bastion this is, and on what it stands. */
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "engine/crypto/openssl.h"
#include "engine/store/embed.h"
#include "shell/cli.h"

/*
 * VERB: version
 *
 * usage: bastion version [--json]
 *
 * Show the versions of bastion and of what it stands on: its schema, the libraries that it runs
 * with, the system.
 */
int
verb_version(struct cli *cli, int argc, char **argv)
{
	const struct openssl_crypto *crypto = openssl_crypto(NULL);
	const char *ssl =
	    crypto == NULL ? "missing" : crypto->OpenSSL_version(OPENSSL_VERSION_STRING);
	struct utsname u;
	int first;

	if ((first = cli_options(cli, argc, argv, NULL, NULL, NULL)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (uname(&u) == -1)
		return refusal_errno(&cli->refusal, "store.failed", "uname"), cli_refuse(cli);
	printf(cli->mode == CLI_JSON
		   ? "{\"bastion\":\"%s\",\"schema\":%d,\"sqlite\":\"%s\",\"libsodium\":\"%s\","
		     "\"openssl\":\"%s\",\"system\":\"%s\",\"release\":\"%s\",\"machine\":\"%s\"}\n"
		   : "bastion %s, schema %d\n"
		     "SQLite %s, libsodium %s, OpenSSL %s\n"
		     "%s %s %s\n",
	    BASTION_VERSION, embedded_versions, sqlite3_libversion(), sodium_version_string(), ssl,
	    u.sysname, u.release, u.machine);
	return 0;
}
