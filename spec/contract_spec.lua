-- The contract: the same cases on every store. A case file returns a function
-- that is given a context and adds its cases to it; a new kind of lock is a new
-- file in CASES, a new host will be a second loop around the stores.

local context = require "spec.contract.context"
local subjects = require "spec.contract.subjects"

local CASES = {
  "basics", "keys", "waiting", "lease", "loss", "with", "reentrancy",
  "closing", "kinds", "admin", "election", "all",
}

local only = os.getenv("DLOCK_TEST_STORE")

for _, subject in ipairs(subjects) do
  if not only or only == subject.name then
    describe("on " .. subject.name .. ", the contract of", function()
      local t = context.new(subject)

      after_each(function()
        t:clean_up()
      end)

      for _, name in ipairs(CASES) do
        describe(name, function()
          require("spec.contract." .. name)(t, it)
        end)
      end
    end)
  end
end
