rockspec_format = "3.0"
package = "dlock"
version = "scm-1"
-- Made from a checkout: luarocks make rockspec/NAME-scm-1.rockspec
source = { url = "git+file://." }
description = {
  summary = "Distributed locks: Redis, ZooKeeper, files",
  detailed = [[
    Locks with fencing, first-come waiting and automatic renewal, on Redis (with
    Sentinel too) and on the files of one host. ZooKeeper and TLS are rocks of
    their own: dlock-zookeeper, dlock-etcd, dlock-consul, dlock-postgres,
    dlock-mysql, dlock-tls.
  ]],
  homepage = "https://example.org/dlock", -- set at the first release
  license = "MIT",
  labels = { "lock", "mutex", "redis", "distributed", "openresty" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.6" }
external_dependencies = {
  UV = { header = "uv.h", library = "uv" },
  HIREDIS = { header = "hiredis/hiredis.h", library = "hiredis" },
}
-- The install target builds what it installs. BUILD is a folder for each Lua,
-- after that of its headers: objects for two of them must not mix.
build = {
  type = "make",
  build_pass = false,
  copy_directories = { "docs", "examples" },
  install_target = "install",
  install_variables = {
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    BUILD = "build$(LUA_INCDIR)",
    UV_CFLAGS = "-I$(UV_INCDIR)",
    UV_LIBS = "-L$(UV_LIBDIR) -luv",
    HIREDIS_CFLAGS = "-I$(HIREDIS_INCDIR)",
    HIREDIS_LIBS = "-L$(HIREDIS_LIBDIR) -lhiredis",
    STORES = "redis redlock file",
    TLS = "",
    DESTDIR = "",
    LUA_SHAREDIR = "$(LUADIR)",
    LUA_LIBDIR = "$(LIBDIR)",
    BINDIR = "$(BINDIR)",
    DATADIR = "", -- no man page: a rock has no place for it
  },
}
