# bastion: one daemon and one SQLite file between a machine and the AI agents that work on it.
#
#   make            build/bastion
#   make test       install what is missing, build, pass every test
#   make demo       install what is missing, build, play the main job once
#   make asan       the whole suite under the address and undefined-behaviour sanitizers
#   make tsan       the same under the thread sanitizer
#   make peers      MCP implementations and a sandbox by others, from npm, for the tests and benches that need them
#   make fuzz       ten minutes for each parser's fuzz target
#   make check      formatting and lint;  make format mends the former
#   make bench      the speeds that we promise, as ratios to peers in the same run
#   make install    DESTDIR, PREFIX

# As many jobs as the machine has processors, unless it was asked for others.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= gcc
VERSION := $(shell sed -n '1,/^\#\# /s/^\#\# \([0-9.]*\).*/\1/p' CHANGELOG.md)

PACKAGES := sqlite3 libsodium
# Loaded when first used (engine/library.h): linking them would triple the start of every verb.
LAZY     := libcurl libmicrohttpd openssl libedit libseccomp

WARN     := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes \
            -Wmissing-prototypes -Wformat=2 -Wundef -Wvla -Wcast-qual
# clang looks into OpenSSL's macros, which cast qualifiers away, and knows not all of gcc's warnings.
ifneq ($(findstring clang,$(CC)),)
WARN     += -Wno-cast-qual -Wno-unknown-warning-option
endif
HARDEN   := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection -fPIE
HARDLD   := -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed
SANITIZE ?=
ifneq ($(SANITIZE),)
# With the sanitizers' own code in between, gcc sees overlaps and unset values that are none.
ifeq ($(findstring clang,$(CC)),)
WARN     += -Wno-restrict -Wno-maybe-uninitialized -Wno-format-truncation
endif
HARDEN   := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fPIE
HARDLD   := -pie -fsanitize=$(SANITIZE)
endif

# Asked once, and without noise where the packages are not there yet: "make deps" brings them.
PKG_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) $(LAZY) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null)

CPPFLAGS += -D_GNU_SOURCE -DBASTION_VERSION='"$(VERSION)"' -I. $(PKG_CFLAGS)
CFLAGS   += -std=gnu11 $(WARN) $(HARDEN)
LDFLAGS  += $(HARDLD)
LDLIBS   += $(PKG_LIBS) -lpthread
# SQLite and libsodium become parts of the program, which then starts in two thirds of the time: nothing has to be
# found and bound, and an ask took an eighth less. (make PARTS="-lsqlite3 -lsodium" links the machine's.)
PARTS    := -Wl,-Bstatic $(PKG_LIBS) -Wl,-Bdynamic -lm

SOURCES  := $(sort $(wildcard engine/*.c engine/*/*.c net/*/*.c shell/*.c))
MAIN     := shell/main.c
OBJECTS  := $(patsubst %.c,$(BUILD)/%.o,$(SOURCES))
LIBRARY  := $(BUILD)/libbastion.a
SQL      := $(wildcard migrations/*.sql schema/*.sql)
EMBED    := $(BUILD)/gen/embed.o
BEGINS   := $(BUILD)/gen/beginning.o
VERBS    := $(sort $(wildcard shell/verb_*.c))
FILTERS  := $(BUILD)/gen/sandbox_filter.o
TABLE    := $(BUILD)/gen/verbs.o
QUERIES  := $(BUILD)/gen/queries.o
SUITES   := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/*/test_*.c)))
BENCHES  := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/bench/bench_*.c)))
ESCAPES  := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/*/escape/*.c)))
HARNESS  := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/*.c)))

# "make V=1" shows the commands.
ifeq ($(V),)
QUIET = @printf '  %-5s %s\n' $(1) $(2);
endif

.PHONY: all test run-tests asan tsan format check demo bench fuzz install clean deps peers suites
all: $(BUILD)/bastion $(BUILD)/bastion.1 $(BUILD)/bastion.service $(BUILD)/bastion-host.service $(BUILD)/bastion-user.service

# What a fresh machine lacks: Debian packages, by name.
deps:
	@sh .ci/deps

deps-%:
	@sh .ci/deps $*

test: deps-test
	-@$(MAKE) --no-print-directory peers
	@$(MAKE) --no-print-directory run-tests

# Into build/peers, nothing else of the machine. Without a network the tests that need them say so.
peers: build/peers/package-lock.json

build/peers/package-lock.json: tests/mcp/package.json tests/mcp/package-lock.json
	@mkdir -p $(@D)
	@cp tests/mcp/package.json $(@D)
	$(call QUIET,NPM,$(@D))cp tests/mcp/package-lock.json $(@D) && cd $(@D) && \
	    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error || { rm -f package-lock.json; exit 1; }

run-tests: suites
	@sh tests/run.sh $(BUILD) $(SUITES)

asan: deps-test
	@$(MAKE) --no-print-directory BUILD=build/asan SANITIZE=address,undefined run-tests

tsan: deps-test
	@$(MAKE) --no-print-directory BUILD=build/tsan SANITIZE=thread run-tests

demo: deps
	@$(MAKE) --no-print-directory all
	@sh tests/e2e/demo.sh $(BUILD)/bastion

bench: deps-bench
	-@$(MAKE) --no-print-directory peers
	@$(MAKE) --no-print-directory all $(BENCHES)
	@sh tests/bench/run.sh $(BUILD)

FORMATTED = $(shell git ls-files '*.c' '*.h')

format:
	@clang-format -i $(FORMATTED)

check: deps-test
	@clang-format --dry-run --Werror $(FORMATTED)
	@cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability \
	    --suppressions-list=.ci/cppcheck -D_GNU_SOURCE -I. engine net shell
	@shellcheck .ci/run .ci/deps $(shell git ls-files '*.sh')

# Ten minutes for each parser: make fuzz; or one: make fuzz FUZZ=fuzz_json SECONDS=60
FUZZ    ?= $(basename $(notdir $(wildcard tests/fuzz/fuzz_*.c)))
SECONDS ?= 600
fuzz: deps-test
	@$(MAKE) --no-print-directory CC=clang BUILD=build/fuzz SANITIZE=fuzzer-no-link,address,undefined \
	    $(FUZZ:%=build/fuzz/tests/fuzz/%)
	@for f in $(FUZZ); do mkdir -p build/fuzz/corpus/$$f && \
	    build/fuzz/tests/fuzz/$$f -max_total_time=$(SECONDS) -max_len=65536 build/fuzz/corpus/$$f || exit 1; done

clean:
	rm -rf $(BUILD)

$(BUILD)/bastion: $(BUILD)/$(MAIN:.c=.o) $(LIBRARY)
	$(call QUIET,LINK,$@)$(CC) $(LDFLAGS) -o $@ $^ $(PARTS) $(filter-out $(PKG_LIBS),$(LDLIBS))

$(LIBRARY): $(filter-out $(BUILD)/$(MAIN:.c=.o),$(OBJECTS)) $(EMBED) $(BEGINS) $(FILTERS) $(TABLE) $(QUERIES)
	$(call QUIET,AR,$@)rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call QUIET,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The SQL is compiled in as it is; with it what all migrations come to, and the digest of the schema
# after each.
$(BUILD)/gen/embed.c: engine/store/gen/embed.sh $(SQL)
	@mkdir -p $(@D)
	$(call QUIET,GEN,$@)sh $< > $@

$(BUILD)/net/host/openapi.o: net/host/openapi.json

$(EMBED): $(BUILD)/gen/embed.c
	$(call QUIET,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The functions of ours that triggers call, since ALTER TABLE reads every trigger anew.
FUNCTIONS := $(patsubst %,$(BUILD)/engine/%.o,actor/identity address clock cron destination endpoint library refusal \
             crypto/base64 crypto/checkpoint crypto/key crypto/merkle crypto/sha256 glob store/bounds store/digest \
             store/function window zone zone_table)

$(BUILD)/beginning: engine/store/gen/beginning.c $(FUNCTIONS) $(EMBED)
	$(call QUIET,LINK,$@)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/gen/beginning.c: $(BUILD)/beginning
	$(call QUIET,GEN,$@)$< $(@:.c=.sql) > $@.new && mv $@.new $@

$(BEGINS): $(BUILD)/gen/beginning.c
	$(call QUIET,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The filters of the sandbox are compiled here, not in each process that starts one.
$(BUILD)/filters: engine/worker/gen/sandbox_filter.c $(patsubst %,$(BUILD)/engine/%.o,library refusal seccomp worker/seal)
	$(call QUIET,LINK,$@)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lseccomp

$(BUILD)/gen/sandbox_filter.c: $(BUILD)/filters
	@mkdir -p $(@D)
	$(call QUIET,GEN,$@)$< > $@.new && mv $@.new $@

$(FILTERS): $(BUILD)/gen/sandbox_filter.c engine/worker/sandbox_job.h
	$(call QUIET,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The table of verbs, the manual and the completions all come from the comments above the verbs.
$(BUILD)/gen/verbs.%: shell/verbs.awk $(VERBS)
	@mkdir -p $(@D)
	$(call QUIET,GEN,$@)awk -v as=$* -f shell/verbs.awk $(VERBS) > $@.new && mv $@.new $@

$(TABLE): $(BUILD)/gen/verbs.c $(BUILD)/gen/verbs.h
	$(call QUIET,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -include $(BUILD)/gen/verbs.h -c -o $@ $<

$(VERBS:%.c=$(BUILD)/%.o): CPPFLAGS += -include $(BUILD)/gen/verbs.h
$(VERBS:%.c=$(BUILD)/%.o): | $(BUILD)/gen/verbs.h

# The library of bastion sql @name.
$(BUILD)/gen/queries.c: shell/queries.sh $(wildcard shell/queries/*.sql)
	@mkdir -p $(@D)
	$(call QUIET,GEN,$@)sh $< > $@

$(QUERIES): $(BUILD)/gen/queries.c
	$(call QUIET,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# What is installed beside the program.
MANUAL      := $(BUILD)/bastion.1
COMPLETIONS := $(BUILD)/gen/verbs.bash $(BUILD)/gen/verbs.zsh $(BUILD)/gen/verbs.fish
UNITS       := $(BUILD)/bastion.service $(BUILD)/bastion-host.service $(BUILD)/bastion-user.service

$(MANUAL): shell/bastion.1 $(BUILD)/gen/verbs.man $(BUILD)/gen/dots.man
	$(call QUIET,GEN,$@)sed -e 's/@VERSION@/$(VERSION)/' -e '/^\.\\" VERBS/{r $(BUILD)/gen/verbs.man' -e 'd;}' \
	    -e '/^\.\\" DOTS/{r $(BUILD)/gen/dots.man' -e 'd;}' $< > $@

$(BUILD)/gen/dots.man: shell/dots.awk shell/sql_dot.c
	@mkdir -p $(@D)
	$(call QUIET,GEN,$@)awk -f $< shell/sql_dot.c > $@.new && mv $@.new $@

$(BUILD)/%.service: shell/%.service
	@mkdir -p $(@D)
	$(call QUIET,GEN,$@)sed 's,@BINDIR@,$(PREFIX)/bin,' $< > $@

SHARE := $(DESTDIR)$(PREFIX)/share
LIB   := $(DESTDIR)$(PREFIX)/lib

# Where AppArmor knows of user namespaces it may restrict them.
APPARMOR    := $(DESTDIR)/etc/apparmor.d

install: $(BUILD)/bastion $(MANUAL) $(COMPLETIONS) $(UNITS)
	install -D -m 755 $(BUILD)/bastion $(DESTDIR)$(PREFIX)/bin/bastion
	install -D -m 644 $(MANUAL) $(SHARE)/man/man1/bastion.1
	install -D -m 644 $(BUILD)/gen/verbs.bash $(SHARE)/bash-completion/completions/bastion
	install -D -m 644 $(BUILD)/gen/verbs.zsh $(SHARE)/zsh/site-functions/_bastion
	install -D -m 644 $(BUILD)/gen/verbs.fish $(SHARE)/fish/vendor_completions.d/bastion.fish
	install -D -m 644 $(BUILD)/bastion.service $(LIB)/systemd/system/bastion.service
	install -D -m 644 $(BUILD)/bastion-host.service $(LIB)/systemd/user/bastion-host.service
	install -D -m 644 $(BUILD)/bastion-user.service $(LIB)/systemd/user/bastion.service
	install -D -m 644 shell/bastion.sysusers $(LIB)/sysusers.d/bastion.conf
	install -D -m 644 shell/bastion.tmpfiles $(LIB)/tmpfiles.d/bastion.conf
	if [ -e $(APPARMOR)/abi/4.0 ]; then \
	    sed 's,@BINDIR@,$(PREFIX)/bin,' shell/bastion.apparmor >$(APPARMOR)/bastion; fi

# A suite is one file of cmocka tests, linked with the harness and everything but main.
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(HARNESS) $(LIBRARY)
	$(call QUIET,LINK,$@)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LDLIBS) -lcmocka -lseccomp -lssl -lcrypto

# A hostile program knows nothing of bastion, and runs without a sanitizer beside it.
$(BUILD)/tests/worker/escape/%: tests/worker/escape/%.c tests/worker/escape/escape.h
	@mkdir -p $(@D)
	$(call QUIET,CC,$<)$(CC) -D_GNU_SOURCE -std=gnu11 $(WARN) -O1 -o $@ $< -lpthread

$(BUILD)/tests/worker/test_escape: $(ESCAPES)

# A fuzz target has no main: libFuzzer brings it.  A bench has its own.
$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(LIBRARY)
	$(call QUIET,LINK,$@)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(HARNESS) $(LIBRARY)
	$(call QUIET,LINK,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcmocka

suites: all $(SUITES)

-include $(OBJECTS:.o=.d) $(HARNESS:.o=.d) $(SUITES:=.d) $(wildcard $(BUILD)/tests/bench/*.d $(BUILD)/tests/fuzz/*.d)

.SECONDARY:
