-- The hook that git asks about a commit's message (.ci/commit-msg) refuses what
-- CONTRIBUTING.md refuses. It is a shell script, so one Lua is enough.
if _VERSION ~= "Lua 5.4" or os.getenv("DLOCK_TEST_SANITIZER") then
  return
end

local process = require "spec.support.process"
local server = require "spec.support.server"

local WHY = "\n\nA waiter was told late.\n"

describe("the hook for commit messages", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  -- The status of the hook, and what it says.
  local function ask(message)
    server.write_file(dir .. "/message", message)
    local status, _, err = process.run { command = { ".ci/commit-msg",
      dir .. "/message" } }
    return status, err
  end

  local function refused(words, message)
    local status, err = ask(message)
    assert.are.equal(1, status, message)
    assert.is_truthy(err:find(words, 1, true), err)
  end

  it("takes a subject with a body", function()
    for _, message in ipairs {
      "redis: wake waiters" .. WHY,
      ("x"):rep(72) .. "\n\n" .. ("y y "):rep(18) .. "\n",
      ("\195\164"):rep(72) .. WHY, -- characters, not bytes
      "redis: wake waiters\n\nSee\nhttps://" .. ("x"):rep(80) .. "\n",
      "redis: wake waiters" .. WHY .. "# " .. ("z "):rep(50) .. "\n",
      "redis: wake waiters" .. WHY .. "# ------------------------ >8 "
        .. "------------------------\ndiff " .. ("z "):rep(50) .. "\n",
      "Merge branch 'x'\n", "fixup! redis: wake waiters\n",
    } do
      assert.are.same({ 0, "" }, { ask(message) })
    end
  end)

  it("refuses what is too long, or says not why", function()
    refused("subject has 73", ("x"):rep(73) .. WHY)
    refused("line has 79", "redis: wake waiters\n\n" .. ("y "):rep(40))
    refused("body is missing", "redis: wake waiters\n")
    refused("body is missing", "redis: wake waiters\n\n# Why: nobody knows\n")
    refused("body is missing", "redis: wake waiters\n\nAcked-by: A <a@b>\n")
    refused("behind the subject", "redis: wake waiters\nA waiter was late.\n")
  end)
end)
