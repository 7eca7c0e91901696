-- Mutants of what lua/dlock reads and writes as text: URLs, options, password
-- files, messages, JSON, the command's output.

return {
  specs = "spec/lua/texts_spec.lua spec/lua/url_spec.lua"
    .. " spec/lua/options_spec.lua spec/lua/bad_input_spec.lua"
    .. " spec/lua/logger_spec.lua spec/cli/cli_spec.lua",
  mutants = {
    { name = "the shown URL is the URL with its password",
      file = "lua/dlock/url.lua",
      find = "out.shown = show(scheme, out.hosts, out.path)",
      put = "out.shown = s" },
    { name = "not a number passes as a number of seconds",
      file = "lua/dlock/options.lua",
      find = "if value >= rule.min and value <= rule.max -- false for NaN",
      put = "if not (value < rule.min or value > rule.max)" },
  },
}
