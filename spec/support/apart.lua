-- Namespaces of the kernel, for processes that are to see another /tmp, another
-- /proc or other processes than we do, as in a container. Where they may not
-- be made the spec fails.
--
--   process.spawn { command = { …apart("--mount", "mount …"), "lua5.4", … } }

local uv = require "luv"

--- The words in front of a command that runs in namespaces of its own (flags:
--- as unshare takes them) after lines of shell.
return function(flags, shell)
  local words = { "unshare", "--kill-child", "--fork" }
  if uv.getuid() ~= 0 then
    words[#words + 1] = "-Ur"
  end
  for word in flags:gmatch("%S+") do
    words[#words + 1] = word
  end
  for _, word in ipairs { "sh", "-ec", shell .. '\nexec "$@"', "sh" } do
    words[#words + 1] = word
  end
  return words
end
