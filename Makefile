# bastion: one daemon and one SQLite file between a machine and the AI agents that work on it.
#
#   make            build/bastion
#   make test       install what is missing, build, pass every test
#   make demo       install what is missing, build, play the main job once
#   make asan       the whole suite under the address and undefined-behaviour sanitizers
#   make check      formatting and lint;  make format mends the former
#   make bench      the speeds that we promise, as ratios to peers in the same run
#   make install    DESTDIR, PREFIX

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= gcc
VERSION := $(shell sed -n '1,/^\#\# /s/^\#\# \([0-9.]*\).*/\1/p' CHANGELOG.md)

PACKAGES := sqlite3 libsodium openssl libseccomp libedit
# Loaded when first used (net/http/lazy.h): linking them would triple the start of every verb.
LAZY     := libcurl libmicrohttpd

WARN     := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes \
            -Wmissing-prototypes -Wformat=2 -Wundef -Wvla -Wcast-qual
HARDEN   := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection -fPIE
HARDLD   := -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed
SANITIZE ?=
ifneq ($(SANITIZE),)
HARDEN   := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fPIE
HARDLD   := -pie -fsanitize=$(SANITIZE)
endif

CPPFLAGS += -D_GNU_SOURCE -DBASTION_VERSION='"$(VERSION)"' -I. \
            $(shell pkg-config --cflags $(PACKAGES) $(LAZY))
CFLAGS   += -std=gnu11 $(WARN) $(HARDEN)
LDFLAGS  += $(HARDLD)
LDLIBS   += $(shell pkg-config --libs $(PACKAGES)) -lpthread

SOURCES  := $(sort $(wildcard engine/*.c engine/*/*.c net/*/*.c shell/*.c))
MAIN     := shell/main.c
OBJECTS  := $(patsubst %.c,$(BUILD)/%.o,$(SOURCES))
LIBRARY  := $(BUILD)/libbastion.a
SQL      := $(wildcard migrations/*.sql schema/*.sql)
EMBED    := $(BUILD)/gen/embed.o
DIGESTS  := $(BUILD)/gen/schema_digest.o
SUITES   := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/*/test_*.c)))
HARNESS  := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/*.c)))

.PHONY: all test asan format check demo bench fuzz install clean deps suites
all: $(BUILD)/bastion

$(BUILD)/bastion: $(BUILD)/$(MAIN:.c=.o) $(LIBRARY)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIBRARY): $(filter-out $(BUILD)/$(MAIN:.c=.o),$(OBJECTS)) $(EMBED) $(DIGESTS)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The SQL is compiled in as it is, and with it the digest of the schema after each migration.
$(BUILD)/gen/embed.c: engine/store/gen/embed.sh $(SQL)
	@mkdir -p $(@D)
	sh $< > $@

$(EMBED): $(BUILD)/gen/embed.c
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/digests: engine/store/gen/digests.c engine/store/digest.c $(EMBED)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/gen/schema_digest.c: $(BUILD)/digests
	$< > $@

$(DIGESTS): $(BUILD)/gen/schema_digest.c
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# A suite is one file of cmocka tests, linked with the harness and everything but main.
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(HARNESS) $(LIBRARY)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcmocka

suites: $(SUITES) $(BUILD)/bastion

-include $(OBJECTS:.o=.d) $(HARNESS:.o=.d) $(SUITES:=.d)

.SECONDARY:
