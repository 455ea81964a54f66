/* command_program.c: programs and wrappers by name. */
#include <stdlib.h>
#include <string.h>

#include "engine/policy/command_part.h"

/* In the order of strcmp. */
static const struct program programs[] = {
    {".", PROGRAM_SOURCE, "", "", 0},
    {"apt", PROGRAM_RULE, "", "", 0},
    {"apt-get", PROGRAM_RULE, "", "", 0},
    {"aria2c", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"awk", PROGRAM_INTERPRETER, "", "", 0},
    {"bash", PROGRAM_SHELL, "", "", 0},
    {"blkdiscard", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"btm", PROGRAM_SCREEN, "", "", 0},
    {"btop", PROGRAM_SCREEN, "", "", 0},
    {"bun", PROGRAM_RULE, "", "", 0},
    {"cargo", PROGRAM_RULE, "", "", 0},
    {"cfdisk", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"chmod", PROGRAM_RULE, "", "", 0},
    {"chown", PROGRAM_RULE, "", "", 0},
    {"cp", PROGRAM_RULE, "", "", 0},
    {"curl", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"dash", PROGRAM_SHELL, "", "", 0},
    {"dd", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"dnf", PROGRAM_RULE, "", "", 0},
    {"docker", PROGRAM_RULE, "", "", 0},
    {"emacs", PROGRAM_SCREEN, "", "", 0},
    {"eval", PROGRAM_SOURCE, "", "", 0},
    {"fdisk", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"fetch", PROGRAM_FETCH, "", "", 0},
    {"find", PROGRAM_RULE, "", "", 0},
    {"ftp", PROGRAM_NETWORK | PROGRAM_SCREEN, "", "", 0},
    {"fzf", PROGRAM_SCREEN, "", "", 0},
    {"gdb", PROGRAM_SCREEN, "", "", 0},
    {"gdisk", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"gem", PROGRAM_RULE, "", "", 0},
    {"gh", PROGRAM_RULE, "", "", 0},
    {"ghci", PROGRAM_SCREEN, "", "", 0},
    {"git", PROGRAM_RULE, "Cc", "", 0},
    {"go", PROGRAM_RULE, "", "", 0},
    {"htop", PROGRAM_SCREEN, "", "", 0},
    {"irb", PROGRAM_SCREEN, "", "", 0},
    {"journalctl", PROGRAM_RULE, "npuotSU", "", 0},
    {"ksh", PROGRAM_SHELL, "", "", 0},
    {"kubectl", PROGRAM_RULE, "nc", "", 0},
    {"less", PROGRAM_SCREEN, "", "", 0},
    {"lftp", PROGRAM_NETWORK, "", "", 0},
    {"lldb", PROGRAM_SCREEN, "", "", 0},
    {"lynx", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"mke2fs", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"mkfs", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"mkswap", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"mongo", PROGRAM_REPL, "", "--eval -f --file", 1},
    {"mongosh", PROGRAM_REPL, "", "--eval -f --file", 1},
    {"more", PROGRAM_SCREEN, "", "", 0},
    {"most", PROGRAM_SCREEN, "", "", 0},
    {"mysql", PROGRAM_REPL, "uhPDS", "-e --execute", 1},
    {"nano", PROGRAM_SCREEN, "", "", 0},
    {"nc", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"ncat", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"netcat", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"node", PROGRAM_REPL | PROGRAM_INTERPRETER, "r", "-e --eval -p --print", 1},
    {"npm", PROGRAM_RULE, "", "", 0},
    {"nvim", PROGRAM_SCREEN, "", "", 0},
    {"openssl", PROGRAM_RULE, "", "", 0},
    {"parted", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"peco", PROGRAM_SCREEN, "", "", 0},
    {"perl", PROGRAM_INTERPRETER, "", "", 0},
    {"php", PROGRAM_REPL | PROGRAM_INTERPRETER, "d", "-r -f", 1},
    {"pico", PROGRAM_SCREEN, "", "", 0},
    {"pip", PROGRAM_RULE, "", "", 0},
    {"pip3", PROGRAM_RULE, "", "", 0},
    {"pnpm", PROGRAM_RULE, "", "", 0},
    {"pry", PROGRAM_SCREEN, "", "", 0},
    {"psql", PROGRAM_REPL, "hpUd", "-c --command -f --file -l --list", 1},
    {"python", PROGRAM_REPL | PROGRAM_INTERPRETER | PROGRAM_RULE, "WX", "-c -m", 1},
    {"python3", PROGRAM_REPL | PROGRAM_INTERPRETER | PROGRAM_RULE, "WX", "-c -m", 1},
    {"rclone", PROGRAM_NETWORK, "", "", 0},
    {"redis-cli", PROGRAM_REPL, "hpsanu", "", 1},
    {"rm", PROGRAM_RULE, "", "", 0},
    {"rsync", PROGRAM_NETWORK, "", "", 0},
    {"ruby", PROGRAM_REPL | PROGRAM_INTERPRETER, "rI", "-e", 1},
    {"scp", PROGRAM_NETWORK, "", "", 0},
    {"sfdisk", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"sftp", PROGRAM_NETWORK | PROGRAM_SCREEN, "", "", 0},
    {"sgdisk", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"sh", PROGRAM_SHELL, "", "", 0},
    {"shred", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"socat", PROGRAM_NETWORK, "", "", 0},
    {"source", PROGRAM_SOURCE, "", "", 0},
    {"sqlite3", PROGRAM_REPL, "", "", 2},
    {"ssh", PROGRAM_NETWORK | PROGRAM_REPL, "BbcDEeFIiJLlmOopQRSWw", "", 2},
    {"tail", PROGRAM_RULE, "nc", "", 0},
    {"tee", PROGRAM_RULE, "", "", 0},
    {"telnet", PROGRAM_NETWORK | PROGRAM_SCREEN, "", "", 0},
    {"tftp", PROGRAM_NETWORK, "", "", 0},
    {"top", PROGRAM_SCREEN, "", "", 0},
    {"vi", PROGRAM_SCREEN, "", "", 0},
    {"vim", PROGRAM_SCREEN, "", "", 0},
    {"watch", PROGRAM_SCREEN, "", "", 0},
    {"wget", PROGRAM_NETWORK | PROGRAM_FETCH, "", "", 0},
    {"wipefs", PROGRAM_DESTRUCTIVE, "", "", 0},
    {"yarn", PROGRAM_RULE, "", "", 0},
    {"yum", PROGRAM_RULE, "", "", 0},
    {"zsh", PROGRAM_SHELL, "", "", 0},
};

static const struct wrapper wrappers[] = {
    {"builtin", "", "", 0, false},
    {"busybox", "", "", 0, false},
    {"cgexec", "g", "", 0, false},
    {"chroot", "", " --userspec --groups ", 1, false},
    {"chrt", "TPD", "", 1, false},
    {"command", "", "", 0, false},
    {"dbus-run-session", "", "", 0, false},
    {"doas", "uC", "", 0, true},
    {"eatmydata", "", "", 0, false},
    {"env", "uC", " --unset --chdir ", 0, true},
    {"exec", "a", "", 0, false},
    {"fakeroot", "lsbu", "", 0, false},
    {"firejail", "", "", 0, false},
    {"flock", "wE", " --timeout --wait --conflict-exit-code ", 1, false},
    {"gosu", "", "", 1, false},
    {"ionice", "cnp", " --class --classdata ", 0, false},
    {"linux32", "", "", 0, false},
    {"linux64", "", "", 0, false},
    {"ltrace", "aAeFlnopsuxX", "", 0, false},
    {"nice", "n", " --adjustment ", 0, false},
    {"nohup", "", "", 0, false},
    {"nsenter", "tSG", " --target --setuid --setgid ", 0, false},
    {"numactl", "", "", 0, false},
    {"parallel", "ajINnPL", " --jobs --arg-file --max-args ", 0, false},
    {"pkexec", "", " --user ", 0, false},
    {"prlimit", "p", " --pid ", 0, false},
    {"proxychains", "f", "", 0, false},
    {"proxychains4", "f", "", 0, false},
    {"run0", "uDg", " --user --group --unit --chdir --property ", 0, false},
    {"runuser", "ugGcs", " --user --group --supp-group --command --shell ", 0, false},
    {"setarch", "", "", 1, false},
    {"setpriv", "", " --reuid --regid --groups --inh-caps --bounding-set ", 0, false},
    {"setsid", "", "", 0, false},
    {"stdbuf", "ioe", " --input --output --error ", 0, false},
    {"strace", "abeEIoOpPsSuUX", "", 0, false},
    {"su-exec", "", "", 1, false},
    {"sudo", "ugpCrtTUhDR",
	" --user --group --prompt --close-from --role --type --command-timeout --other-user --host"
	" --chdir --chroot ",
	0, true},
    {"systemd-run", "uptEMHd",
	" --unit --property --uid --gid --setenv --machine --host --slice --working-directory ", 0,
	false},
    {"taskset", "p", "", 1, false},
    {"time", "fo", " --format --output ", 0, false},
    {"timeout", "sk", " --signal --kill-after ", 1, false},
    {"torsocks", "", "", 0, false},
    {"toybox", "", "", 0, false},
    {"unbuffer", "", "", 0, false},
    {"unshare", "RwSGl", " --root --wd --setuid --setgid --map-user --map-group ", 0, false},
    {"valgrind", "", "", 0, false},
    {"watch", "nq", " --interval --equexit ", 0, false},
    {"xargs", "adEILnPs",
	" --arg-file --delimiter --max-lines --max-args --max-procs --max-chars"
	" --process-slot-var ",
	0, false},
    {"xvfb-run", "enps", "", 0, false},
};

static int
by_program(const void *key, const void *item)
{
	return strcmp(key, ((const struct program *)item)->name);
}

static int
by_wrapper(const void *key, const void *item)
{
	return strcmp(key, ((const struct wrapper *)item)->name);
}

const struct program *
program_named(const char *name)
{
	/* mkfs.ext4 and its like are mkfs. */
	if (strncmp(name, "mkfs.", 5) == 0)
		name = "mkfs";
	return bsearch(name, programs, sizeof(programs) / sizeof(programs[0]), sizeof(programs[0]),
	    by_program);
}

const struct wrapper *
wrapper_named(const char *name)
{
	return bsearch(name, wrappers, sizeof(wrappers) / sizeof(wrappers[0]), sizeof(wrappers[0]),
	    by_wrapper);
}

void
program_name(const struct arg *arg, char out[COMMAND_NAME])
{
	const char *s = arg->s + arg->len;
	size_t i, n;

	while (s > arg->s && s[-1] != '/')
		s--;
	n = (size_t)(arg->s + arg->len - s);
	if (n >= COMMAND_NAME)
		n = 0;
	for (i = 0; i < n; i++)
		out[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] | 0x20) : s[i];
	out[n] = '\0';
}
