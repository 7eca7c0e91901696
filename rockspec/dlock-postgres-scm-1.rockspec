rockspec_format = "3.0"
package = "dlock-postgres"
version = "scm-1"
-- Made from a checkout: luarocks make rockspec/NAME-scm-1.rockspec
source = { url = "git+file://." }
description = {
  summary = "The PostgreSQL store of dlock",
  detailed = [[
    Adds postgres:// and postgress:// to dlock, with libpq. It is a rock of its
    own so that nobody installs a library without need.
  ]],
  homepage = "https://example.org/dlock", -- set at the first release
  license = "MIT",
  labels = { "lock", "postgresql", "distributed" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.6", "dlock" }
external_dependencies = {
  UV = { header = "uv.h", library = "uv" },
  LIBPQ = { library = "pq" }, -- pkg-config knows where the header is
}
-- The install target builds what it installs. BUILD is a folder for each Lua,
-- after that of its headers: objects for two of them must not mix.
build = {
  type = "make",
  build_pass = false,
  install_target = "install-postgres",
  install_variables = {
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    BUILD = "build$(LUA_INCDIR)",
    UV_CFLAGS = "-I$(UV_INCDIR)",
    UV_LIBS = "-L$(UV_LIBDIR) -luv",
    LIBPQ_LIBS = "-L$(LIBPQ_LIBDIR) -lpq",
    STORES = "postgres",
    TLS = "",
    DESTDIR = "",
    LUA_LIBDIR = "$(LIBDIR)",
  },
}
