rockspec_format = "3.0"
package = "dlock-etcd"
version = "scm-1"
-- Made from a checkout: luarocks make rockspec/NAME-scm-1.rockspec
source = { url = "git+file://." }
description = {
  summary = "The etcd store of dlock",
  detailed = [[
    Adds etcd:// to dlock, and etcds:// where the rock dlock-tls is, with
    libnghttp2. It is a rock of its own so that nobody installs a library
    without need.
  ]],
  homepage = "https://example.org/dlock", -- set at the first release
  license = "MIT",
  labels = { "lock", "etcd", "distributed" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.6", "dlock" }
external_dependencies = {
  UV = { header = "uv.h", library = "uv" },
  NGHTTP2 = { header = "nghttp2/nghttp2.h", library = "nghttp2" },
}
-- The install target builds what it installs. BUILD is a folder for each Lua,
-- after that of its headers: objects for two of them must not mix.
build = {
  type = "make",
  build_pass = false,
  install_target = "install-etcd",
  install_variables = {
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    BUILD = "build$(LUA_INCDIR)",
    UV_CFLAGS = "-I$(UV_INCDIR)",
    UV_LIBS = "-L$(UV_LIBDIR) -luv",
    NGHTTP2_CFLAGS = "-I$(NGHTTP2_INCDIR)",
    NGHTTP2_LIBS = "-L$(NGHTTP2_LIBDIR) -lnghttp2",
    STORES = "etcd",
    TLS = "",
    DESTDIR = "",
    LUA_LIBDIR = "$(LIBDIR)",
  },
}
