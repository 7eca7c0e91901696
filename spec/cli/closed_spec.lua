-- A program that was started with its standard input, output or error closed,
-- as some daemons start others: none of the library's own descriptors may be
-- one of these three, where the program would read and print.
local command = require "spec.support.command"
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

for _, subject in ipairs(subjects) do
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
