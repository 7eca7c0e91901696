rockspec_format = "3.0"
package = "dlock-consul"
version = "scm-1"
-- Made from a checkout: luarocks make rockspec/NAME-scm-1.rockspec
source = { url = "git+file://." }
description = {
  summary = "The Consul store of dlock",
  detailed = [[
    Adds consul:// and consuls:// to dlock, with libcurl and jansson. It is a
    rock of its own so that nobody installs a library without need.
  ]],
  homepage = "https://example.org/dlock", -- set at the first release
  license = "MIT",
  labels = { "lock", "consul", "distributed" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.6", "dlock" }
external_dependencies = {
  UV = { header = "uv.h", library = "uv" },
  CURL = { library = "curl" }, -- Debian's header is where the compiler looks
  JANSSON = { header = "jansson.h", library = "jansson" },
}
-- The install target builds what it installs. BUILD is a folder for each Lua,
-- after that of its headers: objects for two of them must not mix.
build = {
  type = "make",
  build_pass = false,
  install_target = "install-consul",
  install_variables = {
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    BUILD = "build$(LUA_INCDIR)",
    UV_CFLAGS = "-I$(UV_INCDIR)",
    UV_LIBS = "-L$(UV_LIBDIR) -luv",
    CURL_LIBS = "-L$(CURL_LIBDIR) -lcurl",
    JANSSON_CFLAGS = "-I$(JANSSON_INCDIR)",
    JANSSON_LIBS = "-L$(JANSSON_LIBDIR) -ljansson",
    STORES = "consul",
    TLS = "",
    DESTDIR = "",
    LUA_LIBDIR = "$(LIBDIR)",
  },
}
