-- dlock.logger, the on_event that is ready-made.

local dlock = require "dlock"
local json = require "dlock.json"
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local server = require "spec.support.server"

describe("dlock.logger", function()
  local dir, path

  setup(function()
    dir = server.new_dir()
    path = dir .. "/log"
  end)

  teardown(function() server.remove_dir(dir) end)

  local function lines(run)
    local file = assert(io.open(path, "w"))
    run(dlock.logger(file), file)
    local list = {}
    for line in io.lines(path) do list[#list + 1] = line end
    if io.type(file) == "file" then file:close() end
    return list
  end

  it("writes a line of JSON for each event, at once", function()
    local list = lines(function(on_event)
      local store = assert(dlock.open { url = "file://" .. dir .. "/locks",
        on_event = on_event })
      local lease = assert(store:lock 'a"b')
      lease:on_lost(function() end)
      assert(store:break_lock 'a"b')
      assert.is_true(lease:wait_lost(5))
      assert(store:close())
    end)
    local lost = ""
    for _, line in ipairs(list) do
      if line:find('"kind":"lost"', 1, true) then lost = line end
    end
    assert.matches('^{"key":"a\\u0022b","kind":"lost","level":"error",'
      .. '"message":"lost: .*","pid":%d+,'
      .. '"time":"%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ"}$', lost)
  end)

  -- Six processes with one standard error, as workers of a service have it.
  local function crowd(what, pattern)
    local ended = process.run { timeout = 60, command = { "sh", "-c",
      "for i in 1 2 3 4 5 6; do " .. process.lua_in_shell
        .. ' -e "$0" 2>>"$1" & done; wait',
      "for i = 1, 3000 do " .. what .. " end", path } }
    assert.equal(0, ended)
    local good, all = 0, 0
    for line in io.lines(path) do
      all = all + 1
      if line:find(pattern) then good = good + 1 end
    end
    assert.same({ 18000, 18000 }, { good, all })
    os.remove(path)
  end

  it("writes lines that those of other processes do not cut", function()
    os.remove(path)
    crowd('log = log or require("dlock").logger() '
      .. 'log { kind = "lost", key = "k", message = "lost: k" }',
      '^{"key":"k","kind":"lost","level":"error","message":"lost: k",'
      .. '"pid":%d+,"time":"[^"]+"}$')
    crowd('require("dlock.cli.out").complain("busy: k")', "^dlock: busy: k$")
  end)

  it("puts line ends and control bytes into no line", function()
    local list = lines(function(on_event)
      on_event { kind = "clock", message = "a\nb\27[2J", key = "\255" }
    end)
    assert.equal(1, #list)
    assert.matches('"level":"warn","message":"a\\u000ab\\u001b%[2J"', list[1])
    assert.matches('"key":"\\u00ff"', list[1])
  end)

  it("says at the caller's line that it was given no event", function()
    local ok, problem = pcall(function() dlock.logger(io.stderr)() end)
    assert.is_false(ok)
    assert.is_truthy(problem:find("logger_spec.lua:%d+: "), problem)
    assert.is_truthy(problem:find("dlock.logger's function takes an event, "
      .. "not a nil", 1, true), problem)
  end)

  it("never raises because of its file", function()
    lines(function(on_event, file)
      file:close()
      on_event { kind = "lost", message = "m" }
    end)
    local full = assert(io.open("/dev/full", "w"))
    dlock.logger(full) { kind = "lost", message = "m" }
    pcall(full.close, full)
  end)

  -- The reader is gone once a write fails; what that write is told by must
  -- not end the program either.
  it("ends no program whose output nobody reads any more", function()
    server.write_file(dir .. "/program.lua", [[
      local core, dlock = require "dlock.core", require "dlock"
      local events = require "dlock.events"
      local function mask()
        for line in io.lines("/proc/self/status") do
          local blocked = line:match("^SigBlk:%s*(%x+)")
          if blocked then return blocked end
        end
      end
      local before = mask()
      io.stdout:setvbuf "no" -- a flush that is compiled hides its failure
      io.write("ready\n")
      local read
      repeat
        read = core.write(function() assert(io.write("\n")) end)
      until not read
      dlock.logger(io.stdout) { kind = "lost", message = "m" }
      dlock.logger() { kind = "lost", message = "m" }
      events.show "a problem"
      assert(mask() == before)
      local file = assert(io.open(arg[1], "w"))
      file:write "goes on"
      file:close()
    ]])
    local status = process.run { command = { "sh", "-c",
      ("%s %s/program.lua %s/result 2>&1 | head -1"):format(
        process.lua_in_shell, dir, dir) } }
    assert.equal(0, status)
    assert.equal("goes on", server.read_file(dir .. "/result"))
  end)

  it("shows no password", function()
    local list = lines(function(on_event)
      local store = assert(dlock.open { url = "redis://u:hidden@127.0.0.1:1",
        on_event = on_event, connect_timeout = 0.1 })
      local lock = dlock.fallback { store:mutex "k",
        assert(dlock.open("file://" .. dir .. "/locks")):mutex "k", grace = 0 }
      assert(lock:acquire { timeout = 0.5 }):release()
      assert(store:close())
    end)
    local text = table.concat(list, "\n")
    assert.matches('"kind":"degraded","level":"warn"', text)
    assert.is_nil(text:find("hidden", 1, true))
  end)

  -- The kinds that the sources tell of, by the calls that do so.
  local function kinds()
    local found = {}
    local grep = assert(io.popen("grep -rhoE '(event|report|tell)"
      .. "\\([a-z_.>-]+, \"[a-z]+\"' csrc lua"))
    for line in grep:lines() do
      found[line:match('"(%a+)"')] = true
    end
    grep:close()
    return found
  end

  it("has the levels of the reference, which names every event", function()
    local text = server.read_file("docs/reference.md")
      :match("\n## Events\n(.-)\n## ")
    local documented = {}
    for row in text:gmatch("\n(|[^\n]*)") do
      local names, levels = row:match("^|([^|]*)|.*|([^|]*)|$")
      levels = levels:gmatch("%a+")
      local level
      for kind in names:gmatch("`(%a+)`") do
        level = levels() or level
        documented[kind] = level
      end
    end
    assert.equal("info", documented.topology)
    for kind in pairs(kinds()) do
      assert.is_truthy(documented[kind], kind)
    end
    for kind, level in pairs(documented) do
      local list = lines(function(on_event)
        on_event { kind = kind, message = "m" }
      end)
      assert.matches('"level":"' .. level .. '"', list[1], kind)
    end
  end)

  it("takes open files only", function()
    for _, bad in ipairs { "log", {}, 1, true } do
      assert.matches("takes an open file", select(2, pcall(dlock.logger, bad)))
    end
    local closed = assert(io.open(path, "w"))
    closed:close()
    assert.matches("closed", select(2, pcall(dlock.logger, closed)))
    assert.matches("with a dot", select(2, pcall(dlock.logger, dlock)))
    assert.is_function(dlock.logger())
  end)

  if rawget(_G, "jit") then -- the Lua that nginx has
    it("uses nginx's own log and levels", function()
      local n = nginx.start { server = [[
        location / { content_by_lua_block {
          local log = require("dlock").logger()
          log { kind = "lost", message = "one" }
          log { kind = "degraded", message = "two" }
          log { kind = "restored", message = "three" }
          ngx.print("logged")
        } }
      ]] }
      local _, body = n:get("/")
      local text = n:log()
      n:stop()
      assert.equal("logged", body)
      assert.matches('%[error%] [^\n]*dlock: {"kind":"lost"', text)
      assert.matches('%[warn%] [^\n]*dlock: {"kind":"degraded"', text)
      assert.is_nil(text:find("three", 1, true)) -- info; the log has notice
    end)

    -- nginx cuts a line of its log at 2048 bytes.
    it("writes a whole line of JSON, however long the event is", function()
      local texts = [[ {
        ("x"):rep(1200), ("x"):rep(70000), ("\n%"):rep(900), "short",
        ("\195\169"):rep(600), ("\226\130\172"):rep(1400),
        ("\240\159\152\128x"):rep(500), ("\255\27"):rep(900) } ]]
      local n = nginx.start { server = [[
        location / { content_by_lua_block {
          local log, texts = require("dlock").logger(), ]] .. texts .. [[
          for _, message in ipairs(texts) do
            for _, key in ipairs(texts) do
              log { kind = "lost", message = message, key = key:sub(1, 512) }
            end
          end
          ngx.print "logged"
        } }
      ]] }
      local _, body = n:get("/")
      local next_line = n:log():gmatch("dlock: ({[^\n]*)")
      n:stop()
      assert.equal("logged", body)
      -- What was written is the text, or its beginning and a mark.
      local function shows(text, written)
        text = json.encode(text):sub(2, -2)
        if text == written then return end
        local beginning = written:match("^(.*)%.%.%.$")
        assert.equal(text:sub(1, #beginning), beginning)
        local rest = text:sub(#beginning + 1)
        assert.is_nil(rest:find("^[\128-\191]"), "a character is cut")
        assert.is_nil(beginning:find("\\u?%x?%x?%x?$"), "an escape is cut")
      end
      texts = assert(loadstring("return " .. texts))()
      for _, message in ipairs(texts) do
        for _, key in ipairs(texts) do
          local line = next_line()
          local keys, messages, rest = line:match('^{"key":"([^"]*)","kind":'
            .. '"lost","level":"error","message":"([^"]*)"(.*)$')
          assert.is_truthy(messages, line)
          assert.matches('^,"pid":%d+,"time":"[^"]*"}, client: ', rest)
          shows(key:sub(1, 512), keys)
          shows(message, messages)
          assert.is_true(#messages > 700 or message == "short", #messages)
          assert.is_true(#line - #rest < 1750, #line)
        end
      end
      assert.is_nil(next_line())
    end)
  end
end)
