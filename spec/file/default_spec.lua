-- The store of a program that names none: the same for all programs of a user,
-- whatever started them. They run with a /tmp of their own.

local apart = require "spec.support.apart"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

local SCRIPT = [[
  local dlock = require "dlock"
  local store = assert(dlock.open())
  print(store)
  local lease, message = store:try_lock("k")
  print(lease and "held" or message)
  io.read()
]]

local ME = ("%d"):format(uv.getuid())

describe("the default store", function()
  local base

  before_each(function()
    base = server.new_dir(true)
    assert(uv.fs_mkdir(base .. "/tmp", 511))
    assert(uv.fs_chmod(base .. "/tmp", 1023)) -- as /tmp: mode 01777
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  local function start(env)
    local all = { DLOCK_URL = false }
    for name, value in pairs(env or {}) do all[name] = value end
    local command = apart("--mount", "mount --bind " .. base .. "/tmp /tmp")
    for _, word in ipairs { process.lua, "-e",
        'io.stdout:setvbuf("line")' .. SCRIPT } do
      command[#command + 1] = word
    end
    local p = process.spawn { command = command, env = all, tested = true }
    return p, p:read_line(), p:read_line()
  end

  it("is one for a cron job, a login shell and a service", function()
    local url = "dlock.store: file:///tmp/dlock-" .. ME
    local p, store, got = start { XDG_RUNTIME_DIR = base .. "/run",
      TMPDIR = base, HOME = base }
    assert.are.same({ url, "held" }, { store, got })
    local _, other, refused = start { XDG_RUNTIME_DIR = false, TMPDIR = false,
      HOME = false, PATH = "/usr/bin:/bin" }
    assert.are.equal(url, other)
    assert.matches("^busy: ", refused)
    p:kill()
    p:wait()
    _, other, got = start { XDG_RUNTIME_DIR = "relative" }
    assert.are.same({ url, "held" }, { other, got })
  end)

  it("is $DLOCK_URL where there is one", function()
    local url = "file:///tmp/other" -- its own /tmp
    local _, store, got = start { DLOCK_URL = url }
    assert.are.same({ "dlock.store: " .. url, "held" }, { store, got })
  end)

  it("says what to do when another user has made its directory", function()
    local dir = base .. "/tmp/dlock-" .. ME
    assert(uv.fs_mkdir(dir, 511))
    if uv.getuid() == 0 then
      assert(uv.fs_chown(dir, 1, 1))
      local _, _, got = start()
      assert.matches("^denied: .*belongs to user 1, .*DLOCK_URL", got)
      assert(uv.fs_chown(dir, 0, 0))
    end
    assert(uv.fs_chmod(dir, 511))
    local _, _, got = start()
    assert.matches("^denied: .*others can write to it.*chmod 0700", got)
    assert(uv.fs_chmod(dir, 1023)) -- as /tmp
    local _, _, why = start()
    assert.matches("^denied: .*a directory of your own in it", why)
    -- And nothing was put there.
    assert.is_nil((uv.fs_scandir_next(uv.fs_scandir(dir))))
  end)

  it("is not cleaned away by systemd-tmpfiles, file by file", function()
    local _, _, got = start()
    assert.are.equal("held", got)
    local scan = uv.fs_scandir(base .. "/tmp/dlock-" .. ME)
    local names = 0
    for name in function() return uv.fs_scandir_next(scan) end do
      local path = base .. "/tmp/dlock-" .. ME .. "/" .. name
      assert.are.equal(896, assert(uv.fs_stat(path)).mode % 4096, name)
      names = names + 1
    end
    assert.are.equal(3, names)
  end)
end)
