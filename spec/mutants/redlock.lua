-- Mutants of Redlock: what makes a hold of votes, and who votes.

local COUNT = "csrc/store/redlock/count.c"
local FAULTS = "spec/redlock/faults_spec.lua"

return {
  specs = "spec/redlock/count_spec.lua " .. FAULTS
    .. " spec/redlock/cuts_spec.lua",
  mutants = {
    { name = "a hold ends with its last vote but one", file = COUNT,
      find = "if (as_late >= q && ends[i] > found)",
      put = "if (as_late + 1 >= q && ends[i] > found)" },
    { name = "fewer than a majority agree on a fence", file = COUNT,
      find = "if (values[i] > 0 && same >= q)",
      put = "if (values[i] > 0 && same + 1 >= q)" },
    { name = "a server that forgot votes at once",
      file = "csrc/store/redis/recipe/vote.c", specs = FAULTS,
      find = "return link->keeps ? 0 : out - age;", put = "return 0;" },
  },
}
