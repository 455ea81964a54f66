/* sandbox_system.c: folders that Linux systems have in common. */
#include <sys/stat.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_system.h"

/* Folders, or links into /usr. */
static const char *const seen[] = {
    "/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt", "/sbin", "/usr"};

/* Readable to some alone; a program that runs as root would be one of them. */
static const char *const hidden[] = {"/etc/bastion", "/etc/shadow", "/etc/shadow-", "/etc/gshadow",
    "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private",
    "/etc/krb5.keytab", "/etc/wireguard", "/etc/NetworkManager/system-connections"};

/* What programs keep keys, tokens and passwords in, below a user's home. */
static const char *const secrets[] = {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker",
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".config/gh",
    ".config/gcloud", ".config/git/credentials", ".config/rclone", ".config/sops",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".terraform.d",
    ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome",
    ".config/chromium", ".thunderbird", ".bash_history", ".zsh_history", ".local/state/bastion"};

static void
add(struct sandbox_system *s, enum sandbox_kind kind, const char *source, const char *target)
{
	if (s->count < SANDBOX_SYSTEM_MAX)
		s->paths[s->count++] = (struct sandbox_path){kind, source, target};
}

static void
add_seen(struct sandbox_system *s, const char *path)
{
	char *text = s->links[s->count];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) == -1)
		return;
	if (S_ISDIR(st.st_mode)) {
		add(s, SANDBOX_READ, path, path);
		return;
	}
	if (S_ISLNK(st.st_mode) && (n = readlink(path, text, sizeof(s->links[0]) - 1)) > 0) {
		text[n] = '\0';
		add(s, SANDBOX_LINK, text, path);
	}
}

void
sandbox_system(struct sandbox_system *s)
{
	struct stat st;
	size_t i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		add_seen(s, seen[i]);
	for (i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (lstat(hidden[i], &st) == 0 && !S_ISLNK(st.st_mode))
			add(s, SANDBOX_HIDE, NULL, hidden[i]);
}

int
sandbox_secrets(const char *home, size_t i, char *out, size_t size)
{
	if (i >= sizeof(secrets) / sizeof(secrets[0]))
		return -1;
	return snprintf(out, size, "%s/%s", home, secrets[i]) < (int)size ? 0 : -1;
}
