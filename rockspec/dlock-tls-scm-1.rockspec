rockspec_format = "3.0"
package = "dlock-tls"
version = "scm-1"
-- Made from a checkout: luarocks make rockspec/NAME-scm-1.rockspec
source = { url = "git+file://." }
description = {
  summary = "TLS for the Redis store of dlock",
  detailed = [[
    Adds rediss:// and valkeys:// to dlock, with OpenSSL. It is a rock of its
    own so that nobody needs OpenSSL who does not use it.
  ]],
  homepage = "https://example.org/dlock", -- set at the first release
  license = "MIT",
  labels = { "lock", "redis", "tls", "openssl" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.6", "dlock" }
external_dependencies = {
  UV = { header = "uv.h", library = "uv" },
  OPENSSL = { header = "openssl/ssl.h", library = "ssl" },
}
-- The install target builds what it installs. BUILD is a folder for each Lua,
-- after that of its headers: objects for two of them must not mix.
build = {
  type = "make",
  build_pass = false,
  install_target = "install-tls",
  install_variables = {
    LUA = "$(LUA)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    BUILD = "build$(LUA_INCDIR)",
    UV_CFLAGS = "-I$(UV_INCDIR)",
    UV_LIBS = "-L$(UV_LIBDIR) -luv",
    OPENSSL_CFLAGS = "-I$(OPENSSL_INCDIR)",
    OPENSSL_LIBS = "-L$(OPENSSL_LIBDIR) -lssl -lcrypto",
    STORES = "",
    TLS = "tls",
    DESTDIR = "",
    LUA_LIBDIR = "$(LIBDIR)",
  },
}
