-- The ZooKeeper store in C, without a server: its pure parts (names, the
-- admission and watch rule, also by chance against the rule in its plainest
-- form, the chain of confirms), and the recipe on a link that loses, doubles
-- and crosses what a test wants it to; and which answers wake the loop.

local process = require "spec.support.process"
local tool = require "spec.support.file_tool"

local UNITS = {
  "a_stand_in_counts_when_its_holder_is_gone",
  "names_of_keys", "paths_that_servers_take", "names_of_contenders",
  "order_across_the_wrap",
  "semaphore_watches", "rule_and_watches_by_chance", "chain_of_confirms",
  "a_new_connection_proves_the_last_answer", "answers_that_do_not_count",
  "sustains_until_the_chain_arrives",
}

local RECIPE = {
  "extends_behind_a_waiter", "renews_behind_a_waiter",
  "hears_a_revoke_behind_a_waiter", "who_is_second_needs_no_list_to_be_first",
  "who_is_second_may_come_too_late_to_watch",
  "a_waiter_whose_node_is_deleted_joins_anew",
  "a_waiter_let_in_without_its_node_hears_of_it",
  "a_broken_holder_hears_of_it_before_the_next_one_holds",
  "asks_again_and_the_node_does_not_grow",
  "a_downgrade_and_a_revoke_cross",
  "a_downgrade_whose_answer_is_lost_is_settled",
  "a_revoke_that_crosses_a_write_reads_again",
  "a_try_on_a_held_key_writes_nothing",
  "a_release_costs_one_list_however_many_wait",
  "one_of_many_that_waited_for_long_has_all_of_its_ttl",
  "one_of_many_whose_node_is_deleted_joins_anew",
  "the_lock_is_deleted_at_each_step",
  "all_but_the_chroot_is_made_of_containers",
  "a_search_that_is_refused_is_denied", "a_look_that_is_refused_is_denied",
  "a_list_that_is_refused_is_denied", "a_node_ahead_that_is_refused_is_denied",
}

local LISTS = {
  "a_crowd_of_readers_costs_three_lists",
  "a_crowd_of_writers_costs_a_list_for_each",
  "who_comes_behind_a_list_is_not_taken_for_deleted",
  "a_try_is_told_by_no_list_of_before",
  "a_crowd_survives_a_cut_at_each_step",
  "a_crowd_survives_its_session_at_each_step",
  "who_gives_up_is_told_by_no_list",
  "a_server_without_containers_gets_plain_nodes",
  "a_watch_without_containers_goes_on",
}

local REST = {
  "a_try_ends_with_its_time",
  "a_release_leaves_its_stand_in",
  "a_release_that_ends_it_deletes_both",
  "a_release_of_a_broken_hold_is_lost",
  "a_stand_in_outlives_the_session",
  "a_stand_in_that_is_given_up_goes_with_the_next_session",
  "a_grant_waits_for_its_stand_in",
  "a_node_that_is_gone_gets_no_stand_in",
  "a_stand_in_is_not_taken_for_its_node",
  "a_stand_in_of_nobody_goes",
  "a_break_ends_what_comes_in_between",
  "a_look_goes_by_the_servers_clock",
}

local SESSIONS = {
  "a_break_whose_answer_is_lost_takes_one_hold_only",
  "a_guard_in_the_gap_is_one_write", "a_release_in_the_gap_is_ours",
  "a_release_that_the_close_cuts_off_is_not_lost",
  "an_old_confirm_ends_no_other_hold",
  "each_node_confirms_in_turn", "who_only_waits_leaves_its_next_write_a_moment",
  "a_node_of_another_session_is_never_adopted",
  "a_node_is_looked_for_behind_a_sync",
  "a_cancel_is_told_as_one_also_when_cut_off", "looks_move_to_the_next_session",
  "a_session_that_cannot_be_opened_is_tried_now_and_then",
  "a_watch_below_what_is_barred_goes_on",
  "watches_of_half_a_megabyte_fill_a_session",
  "watches_that_are_over_fill_no_session",
  "waits_that_begin_together_fill_a_session",
  "a_hold_without_proof_is_lost_when_asked_for",
  "a_grant_waits_for_what_proves_the_session",
  "a_shorter_timeout_ends_the_session", "a_hold_ends_with_its_own_session_only",
}

local ENDS = {
  "an_event_that_is_missed_ends_holds_at_once",
  "an_event_missed_while_away_ends_holds_at_once",
  "who_is_denied_tells_holds_and_then_closes",
  "who_is_shortened_tells_holds_and_then_closes",
  "who_is_stopped_tells_holds_and_then_closes",
  "who_is_told_goes_on_in_another_session",
  "who_waits_goes_on_when_an_event_was_missed",
  "who_is_let_in_but_never_answered_is_given_up",
  "who_is_back_at_once_stays_though_nothing_is_held",
  "who_is_answered_again_goes_on",
}

local CLIENT = {
  "one_that_leads_another_wakes_nobody", "each_other_one_wakes",
  "one_that_leads_nobody_wakes", "one_that_leads_a_refused_one_is_answered",
  "of_an_even_number_one_by_lot_is_there_twice",
}

local function tests_of(program, names)
  local out

  setup(function()
    local path = tool.program(program)
    local status, text = process.run { command = { path }, timeout = 120 }
    assert(status, "it did not end")
    out = text
  end)

  for _, name in ipairs(names) do
    it((name:gsub("_", " ")), function()
      assert.are.equal("ok " .. name, out:match("[^\n]*" .. name .. "[^\n]*"))
    end)
  end
end

describe("the ZooKeeper store's pure part:", function()
  tests_of("zookeeper_units", UNITS)
end)

describe("the ZooKeeper store's recipe:", function()
  tests_of("zookeeper_recipe", RECIPE)
end)

describe("the ZooKeeper store's lists:", function()
  tests_of("zookeeper_lists", LISTS)
end)

describe("the ZooKeeper store's sequence numbers:", function()
  tests_of("zookeeper_counter", { "a_counter_at_its_end_begins_anew" })
end)

describe("the ZooKeeper store's min_hold:", function()
  tests_of("zookeeper_rest", REST)
end)

describe("the ZooKeeper store's sessions:", function()
  tests_of("zookeeper_sessions", SESSIONS)
end)

describe("the end of a ZooKeeper session:", function()
  tests_of("zookeeper_ends", ENDS)
end)

describe("the ZooKeeper store's client:", function()
  tests_of("zookeeper_client", CLIENT)
end)
