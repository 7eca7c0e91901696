-- TLS in a process that exits, forks, has another OpenSSL, or is nginx.

local library = require "spec.support.library"
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"

local URL = assert(os.getenv "DLOCK_TEST_REDISS", "run `make test`")

-- Whether a sanitizer is here: it refuses the RTLD_DEEPBIND that keeps two
-- OpenSSLs apart.
local sanitized = os.getenv "DLOCK_TEST_RUNTIME"

-- A program of its own with a Lua in it, and with functions of OpenSSL that
-- are of no use to anybody else.
local PROGRAM = [[
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#define ANOTHER(name) void name(void) { puts("wrong " #name); abort(); }
ANOTHER(SSL_new) ANOTHER(SSL_free) ANOTHER(SSL_CTX_new) ANOTHER(SSL_CTX_free)
ANOTHER(SSL_read_ex) ANOTHER(SSL_write_ex) ANOTHER(SSL_do_handshake)
ANOTHER(TLS_client_method) ANOTHER(OPENSSL_init_ssl)
ANOTHER(OPENSSL_init_crypto)
ANOTHER(ERR_clear_error) ANOTHER(ERR_peek_error) ANOTHER(BIO_new)
ANOTHER(BIO_meth_new) ANOTHER(CRYPTO_malloc) ANOTHER(CRYPTO_zalloc)
ANOTHER(EVP_CIPHER_CTX_new) ANOTHER(EVP_DigestInit_ex) ANOTHER(RAND_bytes_ex)
int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_pushstring(L, argv[argc - 1]);
  lua_setglobal(L, "URL");
  if (luaL_loadfile(L, argv[1]) || lua_pcall(L, 0, 0, 0)) {
    puts(lua_tostring(L, -1));
    return 1;
  }
  lua_close(L);
  return 0;
}
]]

local SCRIPT = [[
  local dlock = require "dlock"
  local store, message, code = dlock.open(URL)
  if not store then print(code, message) return end
  local lease = assert(store:lock "another OpenSSL")
  assert(lease:release())
  store:close()
  print "works"
]]

local package_name = rawget(_G, "jit") and "luajit"
  or "lua" .. _VERSION:match "%d.%d"

describe("TLS", function()
  local dir

  before_each(function() dir = server.new_dir() end)

  local timed = steady(nil, function()
    process.close_all()
    server.remove_dir(dir)
  end)

  timed("works in a program that shows an OpenSSL of its own", function()
    server.write_file(dir .. "/host.c", PROGRAM)
    server.write_file(dir .. "/script.lua", SCRIPT)
    local status, out, err = process.run { command = { "sh", "-c",
      ("cc -w -rdynamic -o %s/host %s/host.c $(pkg-config --cflags --libs %s)")
        :format(dir, dir, package_name) } }
    assert.are.equal(0, status, tostring(out) .. tostring(err))
    status, out, err = process.run { tested = true,
      command = { dir .. "/host", dir .. "/script.lua", URL } }
    assert.are.equal(0, status, tostring(out) .. tostring(err))
    assert.matches(sanitized and "^unsupported" or "^works", out)
  end)

  timed("lets a process exit 150 times in the middle of renewals", function()
    -- Somebody else uses OpenSSL too, which cleans up at exit then.
    local user = library.build(dir, "user", [[
      #include <openssl/ssl.h>
      int use_it(void *lua) {
        (void)lua;
        OPENSSL_init_ssl(0, NULL);
        return 0;
      } ]], { "-lssl" })
    server.write_file(dir .. "/exits.lua", [[
      local url, user, number = arg[1], arg[2], tonumber(arg[3])
      if number % 2 == 0 then assert(package.loadlib(user, "use_it"))() end
      local dlock = require "dlock"
      local store = assert(dlock.open { url = url, name = "exits" })
      leases = {} -- else the collector may find them first, and says so
      for i = 1, 5 do
        leases[i] = assert(store:lock(("exit %d %d"):format(number, i),
          { ttl = 0.1 }))
      end
      require("luv").sleep(number % 40) -- a renewal each 33 ms
      os.exit(0, number % 3 == 0)
    ]])
    local status, out, err = process.run { timeout = 120, tested = true,
      command = { "sh", "-c", "seq 150 | xargs -P 4 -I{} " .. process.lua
        .. " " .. dir .. "/exits.lua " .. URL .. " " .. user .. " {}" } }
    assert.are.equal(0, status, tostring(out) .. tostring(err))
    assert.are.equal("", out .. err)
  end)

  timed("lets a process fork in the middle of renewals", function()
    local fork = library.build(dir, "fork", [[
      #include <stdlib.h>
      #include <sys/wait.h>
      #include <unistd.h>
      int do_fork(void *lua) {
        (void)lua;
        if (fork() == 0)
          setenv("FORKED", "1", 1);
        return 0;
      }
      int do_wait(void *lua) {
        int status;
        (void)lua;
        while (wait(&status) > 0)
          if (status != 0)
            abort();
        return 0;
      } ]])
    local status, out, err = process.run { timeout = 60,
      args = { URL, fork }, script = [[
        local url, library = arg[1], arg[2]
        local dlock = require "dlock"
        local fork = assert(package.loadlib(library, "do_fork"))
        local wait = assert(package.loadlib(library, "do_wait"))
        local store = assert(dlock.open(url))
        local leases = {}
        for i = 1, 20 do
          leases[i] = assert(store:lock("fork " .. i, { ttl = 0.2 }))
        end
        for i = 1, 60 do
          fork()
          if os.getenv "FORKED" then
            local own = assert(dlock.open(url))
            assert(assert(own:lock("child " .. i)):release())
            own:close()
            os.exit(0)
          end
          if i % 10 == 0 then wait() end
        end
        wait()
        assert(store:ping())
        store:close()
        print "fine" ]] }
    assert.are.equal("", err)
    assert.are.equal("fine\n", out)
    assert.are.equal(0, status)
  end)

  -- As whoever else uses OpenSSL in this thread may.
  timed("takes no error for its own that others left behind", function()
    local user = library.build(dir, "user", [[
      #include <openssl/err.h>
      int leave_one(void *lua) {
        (void)lua;
        ERR_raise(ERR_LIB_SSL, 1);
        return 0;
      } ]], { "-lcrypto" })
    local p = proxy.start(URL)
    p:trickle("down", 20) -- so that reads have to wait for more
    local status, out, err = process.run { env = { DLOCK_TRACE = "1" },
      args = { p.url, user }, script = [[
        local leave_one = assert(package.loadlib(arg[2], "leave_one"))
        local store = assert(require("dlock").open(arg[1]))
        for i = 1, 20 do
          leave_one()
          local lease = assert(store:lock("errors " .. i))
          leave_one()
          assert(lease:release())
        end
        store:close()
        print "fine" ]] }
    assert.are.equal("0 fine\n", status .. " " .. out, err)
    assert.are.equal(1, select(2, err:gsub("net tls the store", "")), err)
    p:stop()
  end)

  if not rawget(_G, "jit") then return end -- nginx has LuaJIT

  timed("serves nginx, whose workers have no part in a handshake", function()
    local n = nginx.start { workers = 2, main = "env DLOCK_TRACE=1;",
      http = [[ init_worker_by_lua_block { -- with this environment
        dlock = require "dlock"
        store = assert(dlock.open(os.getenv("DLOCK_TEST_REDISS")))
      } ]],
      server = [[ location = /pair { content_by_lua_block {
        local lease = assert(store:lock("nginx " .. ngx.var.arg_key,
          { timeout = 20 }))
        ngx.sleep(0.001)
        assert(lease:release())
        ngx.print "done"
      } } ]] }
    local admin = redis.connect()
    for round = 1, 8 do
      local requests = {}
      for i = 1, 30 do
        requests[i] = n:begin("/pair?key=" .. i % (round + 1))
      end
      if round % 2 == 0 then
        admin:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      end
      for i = 1, 30 do
        local status, body = requests[i]:finish()
        assert.are.equal("200 done", status .. " " .. body)
      end
    end
    admin:close()
    local handshakes = 0
    for pid, thread in n:log():gmatch(
      "dlock (%d+) %S+ net tls the store: TLSv1.3, %a+, thread (%d+)") do
      assert.are_not.equal(pid, thread)
      handshakes = handshakes + 1
    end
    assert.is_true(handshakes >= 6, "handshakes: " .. handshakes)
    assert.same({}, n:complaints())
    n:stop()
  end)

  timed("shares nginx' OpenSSL with its own sockets", function()
    local ca = assert(os.getenv "SSL_CERT_FILE")
    local n = nginx.start {
      http = "lua_ssl_trusted_certificate " .. ca .. [[;
        lua_socket_log_errors off;
        init_worker_by_lua_block {
          url = os.getenv("DLOCK_TEST_REDISS")
          store = assert(require("dlock").open(url))
          function pair(key)
            assert(assert(store:lock(key, { timeout = 20 })):release())
          end
          function shake(name)
            local one = ngx.socket.tcp()
            assert(one:connect("127.0.0.1", tonumber(url:match(":(%d+)"))))
            -- It may raise where it should return what is wrong.
            local fine, ok = pcall(one.sslhandshake, one, nil, name, true)
            if not (fine and ok) then return "refused" end
            assert(one:send("PING\r\n"))
            return one:receive()
          end
        } ]],
      server = [[ location = /both { content_by_lua_block {
        pair("both " .. ngx.var.arg_key)
        local good = shake("localhost")
        pair("both " .. ngx.var.arg_key)
        local bad = shake("elsewhere.test")
        pair("both " .. ngx.var.arg_key)
        ngx.print(good, " ", bad)
      } } ]] }
    local admin = redis.connect()
    local function connections()
      return tonumber(admin:call("INFO", "stats")
        :match "total_connections_received:(%d+)")
    end
    assert.are.equal(200, (n:get "/both?key=first"))
    local before = connections()
    for _ = 1, 10 do
      local requests = {}
      for i = 1, 8 do requests[i] = n:begin("/both?key=" .. i % 3) end
      for i = 1, 8 do
        local status, body = requests[i]:finish()
        assert.are.equal(200, status, n:log())
        assert.matches("^%+PONG refused$", body)
      end
    end
    -- nginx' own are two a request; dlock's is one for messages.
    assert.are.equal(2 * 80 + 1, connections() - before)
    admin:close()
    assert.same({}, n:complaints())
    n:stop()
  end)
end)
