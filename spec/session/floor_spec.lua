-- The recipe of stores with sessions (csrc/store/session) on a driver in
-- memory: what it does is the same on each driver, and needs no server.

local process = require "spec.support.process"
local tool = require "spec.support.file_tool"

local TESTS = {
  "one_holds_and_leaves_nothing", "they_hold_in_the_order_of_their_creates",
  "readers_share_and_a_writer_waits_for_all", "a_hold_ends_with_its_session",
  "a_create_whose_answer_is_lost_is_found",
  "a_lost_create_that_nobody_wants_is_taken_back",
  "a_break_lets_the_next_one_in", "a_min_hold_outlives_its_release",
}

describe("the recipe of stores with sessions:", function()
  local out

  setup(function()
    local path = tool.program("session_floor")
    local status, text = process.run { command = { path }, timeout = 120 }
    assert(status, "it did not end")
    out = text
  end)

  for _, name in ipairs(TESTS) do
    it((name:gsub("_", " ")), function()
      assert.are.equal("ok " .. name, out:match("[^\n]*" .. name .. "[^\n]*"))
    end)
  end
end)
