-- A program that was started with its standard input, output or error closed,
-- as some daemons start others: none of the library's own descriptors may be
-- one of these three, where the program would read and print. And the command
-- where hardly any other descriptor may be opened: it says what it lacks.
local command = require "spec.support.command"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local subjects = require "spec.contract.subjects"

local CLOSED = { "0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-" }

local SCRIPT = [[
  local url, key, found = arg[1], arg[2], {}
  local store = assert(require("dlock").open(url))
  local lease = assert(store:lock(key))
  for fd = 0, 2 do
    local p = io.popen("readlink /proc/$PPID/fd/" .. fd)
    found[#found + 1] = p:read("*a")
    p:close()
  end
  local written = io.stdout:write("lost") and io.stdout:flush()
  found[#found + 1] = tostring(written and true) .. "\n"
  assert(lease:release())
  assert(store:close())
  local report = assert(io.open(arg[3], "w"))
  report:write(table.concat(found), "closed\n")
  report:close()
]]

for _, subject in ipairs(lot.two_stores(subjects)) do
  describe("standard descriptors closed on " .. subject.name, function()
    local url = subject.url()

    after_each(process.close_all)

    it("are used by no descriptor of dlock", function()
      for _, closed in ipairs(CLOSED) do
        local path = os.tmpname()
        local status = process.run { command = { "sh", "-c",
          'exec "$0" "$@" 9>&- ' .. closed, process.lua, "-e",
          ("arg = { %q, %q, %q } "):format(url, command.key(), path)
            .. SCRIPT } }
        local found = {}
        for line in io.lines(path) do found[#found + 1] = line end
        os.remove(path)
        assert.same({ closed, 0, "closed" }, { closed, status, found[5] })
        for fd = 0, 2 do
          local expected = closed:find(fd, 1, true) and "^/dev/null$"
            or "^[ps][io][pc]ke?t?e?:"
          assert.matches(expected, found[fd + 1])
        end
        assert.equal(closed:find(1, 1, true) and "nil" or "true", found[4])
      end
    end)

    it("are used by no descriptor of dlock run", function()
      for _, closed in ipairs(CLOSED) do
        assert.same({ closed, 7 }, { closed, (process.run { command = { "sh",
          "-c", process.lua .. ' bin/dlock --url "$0" run "$1" -- '
          .. "sh -c 'exit 7' " .. closed, url, command.key() } }) })
      end
    end)
  end)
end

describe("the command with hardly a descriptor", function()
  local url = "file://" .. tostring(os.getenv("DLOCK_TEST_DIR")) .. "/few"

  after_each(process.close_all)

  -- Below 10 the shell that it begins with cannot even read it, and says so.
  it("says what it lacks, whatever it was to do", function()
    for _, line in ipairs { "run k -- true", "show k", "ping" } do
      local done
      for limit = 10, 40 do
        local status, out, err = process.run { command = { "sh", "-c",
          ("ulimit -n %d; exec dlock --url '%s' %s"):format(limit, url, line) },
          stderr = "pipe" }
        done = status == 0
        assert.is_true(done or err:find "oo many open files" ~= nil
          or err:find "sh: " ~= nil, line .. limit .. out .. err)
        if done then break end
        assert.matches("^[^\n]+\n$", err)
      end
      assert.is_true(done)
    end
  end)
end)
