-- What the pages say is so: every ```lua block runs, each in a process of its
-- own with the embedded store as the default (those for nginx in nginx, see
-- resty_pages_spec), and so do the README's shell lines and the examples; the
-- reference has every function and option, and no link is dead.

local core = require "dlock.core"
local dlock = require "dlock"
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local server = require "spec.support.server"
local shared = require "spec.support.shared"
local uv = require "luv"
local zk = require "spec.support.zk"

local function runs_here(block)
  return block.language == "lua"
    and (not block.version or _VERSION >= "Lua " .. block.version)
end

-- The pages whose ```lua blocks are programs.
local PROGRAMS = { "README.md", "docs/howto.md", "docs/fallback.md",
  "docs/redis.md", "docs/cluster.md", "docs/redlock.md", "docs/zookeeper.md",
  "docs/etcd.md", "docs/consul.md", "docs/postgres.md", "docs/mysql.md",
  "docs/file.md", "docs/loops.md", "docs/troubleshooting.md",
  "docs/cookbook.md" }

-- Who runs, or looks at, the blocks that are none.
local ELSEWHERE = {
  ["README.md: sh"] = "here, below",
  ["docs/troubleshooting.md: sh"] = "here, below",
  ["docs/operating.md: sh"] = "here, below",
  ["docs/howto.md: json"] = "docs/types_spec",
  ["docs/command.md: sh"] = "docs/command_spec",
  ["docs/command.md: conf"] = "docs/command_spec",
  ["docs/cookbook.md: sh"] = "docs/cookbook_spec",
  ["docs/cookbook.md: cron"] = "docs/cookbook_spec",
  ["docs/cookbook.md: conf"] = "docs/cookbook_spec",
  ["docs/cookbook.md: ini"] = "docs/cookbook_spec",
  ["docs/cookbook.md: sql"] = "docs/cookbook_spec, in SQLite",
  ["docs/cookbook.md: yaml"] = "docs/cookbook_spec",
  ["CONTRIBUTING.md: sh"] = "docs/contributing_spec, in a shell",
  ["CONTRIBUTING.md: text"] = "docs/contributing_spec: what a command prints",
  ["docs/openresty.md: nginx"] = "docs/resty_pages_spec, in nginx",
  ["docs/openresty.md: lua"] = "docs/resty_pages_spec, as a handler in nginx",
  ["docs/performance.md: sh"] = "docs/performance_spec, in a shell",
  ["docs/security.md: lua"] = "redis/tls_refusals_spec, with its own files",
  ["docs/security.md: hcl"] = "consul/rights_spec, with this policy",
  ["docs/security.md: "] = "contract/subjects gives these rights to users",
  ["docs/zookeeper.md: "] = "here, below: the name of a node",
  ["docs/consul.md: "] = "consul/faults_spec: names of keys",
  ["docs/mysql.md: sql"] = "mysql/server_spec, in MariaDB",
  ["docs/postgres.md: sql"] = "postgres/page_spec, in PostgreSQL",
  ["docs/etcd.md: "] = "etcd/units_spec: names of keys",
}

describe("pages:", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function run(opts)
    opts.timeout, opts.env = 20, { DLOCK_URL = "file://" .. dir .. "/locks" }
    local status, out, err = process.run(opts)
    assert.are.equal("", err)
    assert.are.equal(0, status)
    return out
  end

  -- The stores that a page names, as they are here.
  local function here(block)
    return pages.here(block, {
      file = "file://" .. dir .. "/named",
      redis = shared.at("DLOCK_TEST_REDIS") .. "/9", -- nobody else's
      ["redis+cluster"] = shared.at("DLOCK_TEST_CLUSTER"),
      zookeeper = shared.at("DLOCK_TEST_ZOOKEEPER"),
      etcd = shared.at("DLOCK_TEST_ETCD"),
      consul = shared.at("DLOCK_TEST_CONSUL"),
      postgres = shared.at("DLOCK_TEST_POSTGRES"),
      mysql = shared.at("DLOCK_TEST_MYSQL"),
    })
  end

  local counter = 0
  for _, page in ipairs(PROGRAMS) do
    for _, block in ipairs(pages.blocks(page)) do
      if runs_here(block) then
        counter = counter + 1
        it(page .. " runs, line " .. block.line, function()
          local path = dir .. "/block.lua"
          server.write_file(path, ("\n"):rep(block.line)
            .. here(block) .. "\n")
          run { file = path }
        end)
      end
    end
  end

  it("have pictures that docs/pictures/draw.lua makes", function()
    run { command = { "lua5.4", "docs/pictures/draw.lua", dir } }
    local count = 0
    for name in uv.fs_scandir_next, assert(uv.fs_scandir(dir)) do
      if name:find("%.svg$") then
        count = count + 1
        assert.are.equal(server.read_file(dir .. "/" .. name),
          server.read_file("docs/pictures/" .. name), name)
      end
    end
    assert.is_true(count >= 5)
  end)

  it("have code in them", function()
    assert.is_true(counter >= 15)
  end)

  it("have no block that is not run", function()
    local programs = {}
    for _, page in ipairs(PROGRAMS) do programs[page .. ": lua"] = true end
    local missing = {}
    for what in pairs(ELSEWHERE) do missing[what] = true end
    for _, page in ipairs(pages.list()) do
      for _, block in ipairs(pages.blocks(page)) do
        local what = page .. ": " .. block.language
        assert.is_truthy(programs[what] or ELSEWHERE[what],
          what .. ", line " .. block.line)
        missing[what] = nil
      end
    end
    assert.same({}, missing)
  end)

  it("docs/zookeeper.md shows a node as it is", function()
    local url = shared.at("DLOCK_TEST_ZOOKEEPER")
    local shown
    for _, block in ipairs(pages.blocks("docs/zookeeper.md")) do
      shown = block.language == "" and block[1]:match("^(/%S-)%d+ ") or shown
    end
    local store = assert(dlock.open(url .. "/app"))
    local lease = assert(store:lock("orders:42"))
    local pattern = "^" .. shown:gsub("[-%%.]", "%%%0"):gsub("<%a+>", "%%x+")
      .. "%d+$"
    local found
    for _, paths in pairs(zk.ephemerals(url)) do
      for _, path in ipairs(paths) do
        found = found or path:match(pattern)
      end
    end
    assert(lease:release())
    store:close()
    assert.is_truthy(found, pattern)
  end)

  -- (A sanitizer's runtime would judge the shell as well.)
  if not os.getenv("DLOCK_TEST_SANITIZER") then
    it("the shell lines of a page run", function()
      for _, page in ipairs { "docs/troubleshooting.md",
        "docs/operating.md" } do
        for _, block in ipairs(pages.blocks(page)) do
          if block.language == "sh" then
            assert.matches("%S", run { command = { "sh", "-euc",
              table.concat(block, "\n") } })
          end
        end
      end
    end)

    it("the README's shell lines run", function()
      local lines = 0
      for _, block in ipairs(pages.blocks("README.md")) do
        if block.language == "sh" then
          lines = lines + #block
          local out = run { command = { "sh", "-euc",
            table.concat(block, "\n") } }
          assert.matches("nobody else does this now\n", out)
          assert.matches("\n%l+, fence %d+\n", out)
        end
      end
      assert.is_true(lines > 5)
    end)
  end

  it("the README has at most 100 lines before its table of pages", function()
    local count = 0
    for line in io.lines("README.md") do
      if line == "## Pages" then break end
      count = count + 1
    end
    assert.is_true(count <= 100, count)
  end)

  it("the README leads to every other page, and the site to each", function()
    local readme = server.read_file("README.md")
    local site = server.read_file("docs/.vitepress/config.mjs")
    for _, page in ipairs(pages.list()) do
      if page:find("^docs/") or page == "CONTRIBUTING.md" then
        assert.is_truthy(readme:find("](" .. page .. ")", 1, true), page)
        local name = page:match("^docs/(.*)%.md$")
        assert.is_truthy(not name or site:find('"' .. name .. '"', 1, true),
          page)
      end
    end
  end)

  local function anchors(path)
    local found = {}
    for line in io.lines(path) do
      local title = line:match("^#+%s+(.*)$")
      if title then
        found[title:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-")] = true
      end
    end
    return found
  end

  it("have no dead links", function()
    for _, page in ipairs(pages.list()) do
      local text = server.read_file(page)
      for target in text:gmatch("%]%(([^)]*)%)") do
        local path, anchor = target:match("^([^#]*)#?(.*)$")
        path = path == "" and page or (page:match("^.*/") or "") .. path
        assert.is_truthy(uv.fs_stat(path), page .. ": " .. target)
        assert.is_true(anchor == "" or anchors(path)[anchor] == true,
          page .. ": " .. target)
      end
    end
  end)

  it("name files that are there", function()
    local rooms = { csrc = true, lua = true, spec = true, bench = true,
      bin = true, examples = true, docs = true, rockspec = true }
    local counted = 0
    for _, page in ipairs(pages.list()) do
      for path in server.read_file(page):gmatch("%f[%w.](%a+/[%w_/.-]*%w)") do
        if rooms[path:match("^%a+")] and not path:find("foo", 1, true) then
          counted = counted + 1
          local beside = (page:match("^.*/") or "") .. path
          -- A table of CONTRIBUTING.md names specs below spec/.
          local spec = "spec/" .. path .. ".lua"
          assert.is_truthy(uv.fs_stat(path) or uv.fs_stat(beside)
            or uv.fs_stat(spec), page .. ": " .. path)
        end
      end
    end
    assert.is_true(counted > 20)
  end)

  it("the Makefile's first lines name every goal", function()
    local text = server.read_file("Makefile"):gsub("\\\n", " ")
    local goals = text:match("\n%.PHONY:(.*)$")
      :gsub("%$%((%u+)%)", function(name)
        return text:match("\n" .. name .. " := ([^\n]*)")
      end)
    local comment = text:match("^(#.-)\n\n")
    for goal in goals:gmatch("%S+") do
      assert.is_truthy(comment:find("%f[%w-]" .. goal:gsub("-", "%%-")
        .. "%f[^%w-]"), goal)
    end
  end)

  it("name commands of make that there are", function()
    local goals = " " .. server.read_file("Makefile"):gsub("\\\n", " ")
      :match("\nGOALS := ([^\n]*)") .. " "
    local counted = 0
    for call in server.read_file("docs/reliability.md"):gmatch("`(make [^`]*)`")
    do
      local goal, rest = call:match("^make (%S+)(.*)$")
      assert.is_truthy(goals:find(" " .. goal .. " ", 1, true), call)
      local script = server.read_file(".ci/" .. goal)
        .. server.read_file(".ci/specs")
      for name in rest:gmatch("(%u+)=") do
        counted = counted + 1
        assert.is_truthy(name == "LUA" or script:find(name, 1, true), call)
      end
    end
    assert.is_true(counted > 8)
  end)

  it("make names the libraries that a build needs and does not find", function()
    local function says(lua, ...)
      local status, _, err = process.run { command = { "make", "-s",
        "BUILD=" .. dir .. "/build", "LUA=" .. lua, ... } }
      assert.are.equal(2, status)
      return err
    end
    assert.matches("lua5%.9.* is no Lua.* lua5%.1, lua5%.2, lua5%.3, "
      .. "lua5%.4, lua5%.5, "
      .. "luajit", says("lua5.9"))
    local err = says("lua5.4", "CPPFLAGS=-nostdinc")
    assert.matches("apt%-get install pkg%-config liblua5%.4%-dev libuv1%-dev "
      .. "libcurl4%-openssl%-dev libjansson%-dev libnghttp2%-dev "
      .. "libmariadb%-dev libpq%-dev libhiredis%-dev libzookeeper%-mt%-dev "
      .. "libssl%-dev\n", err)
    assert.is_nil(err:find("fatal error", 1, true), err)
    assert.is_nil(says("lua5.4", "CPPFLAGS=-nostdinc", "STORES=file")
      :find("hiredis-dev", 1, true))
    assert.is_nil(says("lua5.4", "CPPFLAGS=-nostdinc", "TLS=")
      :find("libssl-dev", 1, true))
  end)

  -- Every function that a user can call, as objects really have them.
  local function functions()
    local store = assert(dlock.open("file:///unused"))
    local objects = {
      store = debug.getmetatable(store).__index,
      mutex = debug.getmetatable(assert(store:mutex("k"))).__index,
      rwlock = debug.getmetatable(assert(store:rwlock("k"))).__index,
      latch = debug.getmetatable(assert(store:latch("k", 2))).__index,
      barrier = debug.getmetatable(assert(store:barrier("k", 2))).__index,
      canceller = debug.getmetatable(dlock.canceller()).__index,
      lease = core.lease_methods,
    }
    local names = {}
    for name, value in pairs(dlock) do
      names[#names + 1] = type(value) == "function" and "dlock." .. name or nil
    end
    for kind, object in pairs { election = store:election("k"),
        semaphore = store:semaphore("k", 2) } do
      for name in pairs(debug.getmetatable(object).__index) do
        if not objects.mutex[name] then
          names[#names + 1] = kind .. ":" .. name
        end
      end
    end
    for object, methods in pairs(objects) do
      for name in pairs(methods) do
        names[#names + 1] = object .. ":" .. name
      end
    end
    return names
  end

  it("the reference and the types have every function", function()
    local reference = server.read_file("docs/reference.md")
    local _, meta = process.run { command = { "lua5.4", ".ci/types", "meta" } }
    assert.is_true(#functions() > 20)
    for _, name in ipairs(functions()) do
      assert.is_truthy(reference:find("`" .. name .. "(", 1, true)
        or reference:find("`" .. name .. "{", 1, true), name)
      assert.is_truthy(meta:find("function " .. name .. "(", 1, true), name)
    end
  end)
end)

describe("examples/", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local scan = uv.fs_scandir("examples")
  local names = {}
  for name, kind in uv.fs_scandir_next, scan do
    if kind ~= "directory" then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    it(name .. " runs", function()
      local status, out, err = process.run {
        file = "examples/" .. name, timeout = 20,
        args = name == "demo.lua" and { "one", dir .. "/ledger" } or {},
        env = { DLOCK_URL = "file://" .. dir .. "/locks" },
      }
      assert.are.equal("", err)
      assert.are.equal(0, status)
      assert.is_truthy(#out > 0)
    end)
  end

  -- Its machines' clocks strike apart: one comes when the other is done.
  it("one_machine_does_it.lua does the job once in each period", function()
    local function machine(period)
      local status, out, err = process.run {
        file = "examples/one_machine_does_it.lua", timeout = 20,
        args = { "file://" .. dir .. "/locks", period },
      }
      assert.are.equal("", err)
      assert.are.equal(0, status)
      return out:match("^making") and "does it" or out:match("^another")
    end
    assert.are.equal("does it", machine("60"))
    assert.are.equal("another", machine("60"))
    local store = assert(dlock.open("file://" .. dir .. "/locks"))
    assert(store:break_lock("nightly-report"))
    store:close()
    assert.are.equal("does it", machine("0.1"))
    uv.sleep(150)
    assert.are.equal("does it", machine("0.1"))
  end)
end)
