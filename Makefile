# dlock's build: one core library and one library per store, for each Lua.
#   make [all]    build for one Lua: LUA=lua5.4, lua5.5, …, luajit; V=1: show how
#   make spec FILE=spec/lua/url_spec.lua    one spec; CASE: part of its name
#   make demo, fresh, test, test-next, shaken, lint, asan, tsan, bench,
#   bench-peers, mutants, torture, failover, fuzz, sim, all-night, env, deps, dist, site    see .ci/
#   make install, install-zookeeper, install-etcd, install-consul,
#   install-postgres, install-mysql, install-tls, uninstall, clean    PREFIX, DESTDIR; removes what install has put there; the build

LUA ?= lua5.4
BUILD ?= build
PKG_CONFIG ?= pkg-config
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
LUA_NAME := $(notdir $(LUA))
LUA_VERSION ?= $(shell $(LUA) -e 'io.write(_VERSION:match("%d%.%d"))')
LUA_SHAREDIR ?= $(PREFIX)/share/lua/$(LUA_VERSION)
LUA_LIBDIR ?= $(PREFIX)/lib/lua/$(LUA_VERSION)
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
GOALS := spec test test-next fresh shaken lint asan tsan bench bench-peers \
  mutants torture failover fuzz sim all-night
# Unless told otherwise: stores that have a luaopen_ file; TLS= needs no OpenSSL.
STORES ?= $(patsubst csrc/lua/store_%.c,%,$(wildcard csrc/lua/store_*.c))
TLS ?= $(if $(filter redis etcd,$(STORES)),tls)
LIBRARIES = $(STORES:%=store/%) $(TLS)

pkg = $(shell $(PKG_CONFIG) $(1) 2>/dev/null)
quiet = $(if $(V),,@$(if $(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS)))),,echo '  $(1) $(@:$(BUILD)/%=%)' &&))
ifneq ($(filter-out env deps demo dist uninstall $(GOALS) clean,$(or $(MAKECMDGOALS),all)),)
LUA_CFLAGS := $(or $(LUA_CFLAGS),$(call pkg,--cflags $(LUA_NAME)))
UV_CFLAGS := $(or $(UV_CFLAGS),$(call pkg,--cflags libuv))
UV_LIBS := $(or $(UV_LIBS),$(call pkg,--libs libuv),-luv)
HIREDIS_CFLAGS := $(or $(HIREDIS_CFLAGS),$(call pkg,--cflags hiredis))
HIREDIS_LIBS := $(or $(HIREDIS_LIBS),$(call pkg,--libs hiredis),-lhiredis)
LIBPQ_CFLAGS := $(or $(LIBPQ_CFLAGS),$(call pkg,--cflags libpq))
LIBMARIADB_CFLAGS := $(or $(LIBMARIADB_CFLAGS),$(call pkg,--cflags libmariadb))
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion $(WERROR)
BASE := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DTHREADED \
  -fvisibility=hidden -fPIC -pthread -Icsrc -I$(BUILD)/gen
# Others' headers as system headers: our warnings are not for them.
INCLUDES = $(patsubst -I%,-isystem %,$(filter-out -I/usr/include,$(LUA_CFLAGS) \
  $(UV_CFLAGS) $(HIREDIS_CFLAGS) $(ZOOKEEPER_CFLAGS) $(NGHTTP2_CFLAGS) $(CURL_CFLAGS) $(JANSSON_CFLAGS) $(LIBPQ_CFLAGS) $(LIBMARIADB_CFLAGS) $(OPENSSL_CFLAGS)))
COMPILE = $(CC) $(BASE) $(WARN) $(INCLUDES) $(CPPFLAGS) $(CFLAGS) -MMD -MP
LINK = $(CC) -shared -pthread -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,--as-needed $(CFLAGS) $(LDFLAGS)
LIBS_redis = $(HIREDIS_LIBS)
ROOMS_store/redis = net
ROOMS_store/redlock = net store/redis
SESSION = $(addprefix store/session/,format life recipe query)
LIBS_zookeeper = $(or $(ZOOKEEPER_LIBS),-lzookeeper_mt)
ROOMS_store/zookeeper = $(SESSION)
LIBS_etcd = $(or $(NGHTTP2_LIBS),-lnghttp2)
ROOMS_store/etcd = net $(SESSION) store/session/asks store/session/etcd
LIBS_consul = $(or $(CURL_LIBS),-lcurl) $(or $(JANSSON_LIBS),-ljansson)
ROOMS_store/consul = $(SESSION) store/session/asks store/session/consul
LIBS_postgres = $(or $(LIBPQ_LIBS),-lpq)
LIBS_mysql = $(or $(LIBMARIADB_LIBS),-lmariadb)
$(foreach s,postgres mysql,$(eval ROOMS_store/$s = store/sql/client store/sql/recipe store/sql/$s))
LIBS_tls = $(or $(OPENSSL_LIBS),-lssl -lcrypto)

# What includes lua.h is compiled for each Lua; the rest once for all.
OUT := $(BUILD)/$(LUA_NAME)
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out csrc/lua/%,$(1))) \
  $(patsubst %.c,$(OUT)/obj/%.o,$(filter csrc/lua/%,$(1)))
room = $(wildcard csrc/$(1)/*.c csrc/$(1)/*/*.c)
CORE_OBJ := $(call objects,$(foreach r,core loop engine,$(call room,$(r))) $(filter-out csrc/lua/store_%,$(call room,lua)))
SCRIPTS := $(shell find csrc/store/redis/scripts -name '*.lua')
PAGES := $(patsubst %,$(BUILD)/share/dlock.%,man bash zsh fish)
TYPES := $(BUILD)/share/dlock/meta.lua

all: $(OUT)/dlock/core.so $(LIBRARIES:%=$(OUT)/dlock/%.so) $(OUT)/bin/dlock $(PAGES) $(TYPES)
# The command, for the Lua that these libraries are for and no other.
$(OUT)/bin/dlock: bin/dlock
	$(call quiet,GEN) sed 's|^exec lua |exec $(LUA) |' $< | install -Dm755 /dev/stdin $@
print = $(call quiet,GEN) mkdir -p $(@D) && $(LUA) $< $(1) >$@.new && mv $@.new $@
$(PAGES): $(BUILD)/share/dlock.%: .ci/pages lua/dlock/version.lua $(wildcard lua/dlock/cli/*.lua)
	$(call print,$*)
$(TYPES): .ci/types $(shell find lua -name '*.lua') ; $(call print,meta)
$(OUT)/dlock/core.so: $(CORE_OBJ)
define library
$(OUT)/dlock/$(1).so: $(call objects,$(foreach r,core $(filter-out tls,$(1:store/%=store/kit)) \
  $(ROOMS_$(1)) $(1),$(call room,$(r))) $(wildcard csrc/lua/$(subst /,_,$(1)).c))
endef
$(foreach l,$(LIBRARIES),$(eval $(call library,$(l))))
$(OUT)/dlock/%.so:
	$(call quiet,LINK) mkdir -p $(@D) && $(LINK) -o $@ $^ $(LIBS_$(*F:redlock=redis)) $(UV_LIBS)
compile = $(call quiet,CC) mkdir -p $(@D) && $(COMPILE) -c -o $@ $<
# Headers that were there for some stores need not be there for others.
HEADERS := $(OUT)/headers$(subst $() ,,$(patsubst %,-%,$(STORES) $(TLS)))
$(BUILD)/obj/%.o: %.c Makefile | $(HEADERS) ; $(compile)
$(OUT)/obj/%.o: %.c Makefile | $(HEADERS) ; $(compile)
$(HEADERS):
	@.ci/headers $@ '$(LUA)' '$(CC) $(INCLUDES) $(CPPFLAGS)' $(STORES) $(TLS)
$(call objects,$(call room,store/redis)): $(BUILD)/gen/redis_scripts.h
$(BUILD)/gen/redis_scripts.h: csrc/store/redis/embed.lua csrc/store/redis/sha1.lua $(SCRIPTS) | $(HEADERS)
	$(call quiet,GEN) mkdir -p $(@D) && $(LUA) $< csrc/store/redis/scripts $@
$(foreach s,postgres mysql,$(eval $(BUILD)/obj/csrc/store/sql/$s/$s.o: $(BUILD)/gen/$s_schema.h))
$(BUILD)/gen/%_schema.h: csrc/store/sql/embed.lua csrc/store/sql/%/schema.sql | $(HEADERS)
	$(call quiet,GEN) mkdir -p $(@D) && $(LUA) $^ $@
-include $(shell find $(BUILD)/obj $(OUT)/obj -name '*.d' 2>/dev/null)

env: ; @.ci/env '$(abspath $(OUT))'
deps dist site: ; @.ci/$@
install: all
install uninstall:
	ROOT='$(DESTDIR)' .ci/install $@ '$(OUT)' '$(DESTDIR)$(LUA_SHAREDIR)' \
	  '$(DESTDIR)$(LUA_LIBDIR)' '$(DESTDIR)$(BINDIR)' \
	  '$(if $(DATADIR),$(DESTDIR)$(DATADIR))' $(LIBRARIES)
PARTS := install-zookeeper install-etcd install-consul install-postgres install-mysql
$(PARTS): install-%: $(OUT)/dlock/store/%.so
install-tls: $(OUT)/dlock/tls.so
$(PARTS) install-tls:
	install -Dm755 $< '$(DESTDIR)$(LUA_LIBDIR)/$(<:$(OUT)/%=%)'
$(GOALS): deps
script = exec env MAKE='$(MAKE)' BUILD='$(BUILD)' .ci/$@ $(if $(findstring command,$(origin LUA)),$(LUA))
demo: ; @.ci/deps demo && $(script)
$(GOALS): ; +@$(script)
clean: ; rm -rf '$(BUILD)'
.PHONY: all env deps demo dist install uninstall $(PARTS) install-tls clean $(GOALS)
