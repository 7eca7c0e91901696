rockspec_format = "3.0"
package = "dlock-zookeeper"
version = "scm-1"
-- Made from a checkout: luarocks make rockspec/NAME-scm-1.rockspec
source = { url = "git+file://." }
description = {
  summary = "The ZooKeeper store of dlock",
  detailed = [[
    Adds zookeeper:// to dlock, with the C client library of ZooKeeper. It is a
    rock of its own so that nobody installs a client library without need.
  ]],
  homepage = "https://example.org/dlock", -- set at the first release
  license = "MIT",
  labels = { "lock", "zookeeper", "distributed" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.6", "dlock" }
external_dependencies = {
  UV = { header = "uv.h", library = "uv" },
  ZOOKEEPER = { header = "zookeeper/zookeeper.h", library = "zookeeper_mt" },
}
-- The install target builds what it installs. BUILD is a folder for each Lua,
-- after that of its headers: objects for two of them must not mix.
build = {
  type = "make",
  build_pass = false,
  install_target = "install-zookeeper",
  install_variables = {
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    BUILD = "build$(LUA_INCDIR)",
    UV_CFLAGS = "-I$(UV_INCDIR)",
    UV_LIBS = "-L$(UV_LIBDIR) -luv",
    ZOOKEEPER_CFLAGS = "-I$(ZOOKEEPER_INCDIR)",
    ZOOKEEPER_LIBS = "-L$(ZOOKEEPER_LIBDIR) -lzookeeper_mt",
    STORES = "zookeeper",
    TLS = "",
    DESTDIR = "",
    LUA_LIBDIR = "$(LIBDIR)",
  },
}
