-- The man page and the completions of shells, from the table in words.lua. The
-- build calls this: generate("man"), "bash", "zsh" or "fish" returns the text.
local help = require "dlock.cli.help"
local version = require "dlock.version"
local words = require "dlock.cli.words"

local field = words.field

local function names_of(verb)
  local names = {}
  for _, option in ipairs(words.options) do
    if words.belongs(option, verb) then names[#names + 1] = option.name end
  end
  return names
end

-- ---- man ----

-- Text in roff: a dash is a minus, and no line begins with a control.
local function roff(text)
  return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("\n([.'])", "\n\\&%1")
    :gsub("^([.'])", "\\&%1"))
end

local function term(out, left, right)
  out[#out + 1] = ".TP\n.B " .. roff(left) .. "\n" .. roff(right) .. "."
end

local PAGES = {
  { "SETTINGS", [[
Settings come from /etc/dlock.conf, then from $XDG_CONFIG_HOME/dlock.conf
(~/.config/dlock.conf), $DLOCK_URL and $DLOCK_PASSWORD_FILE, and options. A
later one goes before an earlier one. A line of a file is "name = value", with
the name of an option of all verbs, \-\-ttl or \-\-timeout. "dlock config" shows
what counts, and where it stands.]] },
  { "ENVIRONMENT", [[
The command of run and elect gets DLOCK_KEY and DLOCK_FENCE, one line for each
key. It gets no password: a DLOCK_URL with a password is taken out. DLOCK_HANDLE
is the handle of release, extend and held\-by.]] },
  { "EXAMPLES", [[
.nf
dlock run nightly \-\- /usr/local/bin/report
dlock run \-\-once\-per 20h nightly \-\- /usr/local/bin/report
dlock run \-n \-\-permits 1/3 downloads \-\- wget \-q "$url"
handle=$(dlock acquire \-\-ttl 10m deploy)
dlock release "$handle"
.fi]] },
}

local function man()
  local out = { ('.TH DLOCK 1 "" "dlock %s" "dlock"'):format(version),
    ".SH NAME\ndlock \\- run a command under a distributed lock",
    ".SH SYNOPSIS" }
  for _, verb in ipairs(words.verbs) do
    out[#out + 1] = (".B dlock %s\n%s.br"):format(roff(verb.name),
      verb.usage ~= "" and roff(verb.usage) .. "\n" or "")
  end
  out[#out + 1] = ".SH VERBS"
  for _, verb in ipairs(words.verbs) do
    out[#out + 1] = (".SS dlock %s %s\n%s."):format(roff(verb.name),
      roff(verb.usage), roff(verb.help:sub(1, 1):upper() .. verb.help:sub(2)))
    if verb.more then out[#out + 1] = ".PP\n" .. roff(verb.more) end
    for _, option in ipairs(words.options) do
      if (" " .. verb.options .. " "):find(" " .. field(option) .. " ", 1, true)
      then
        term(out, help.shown(option), option.help)
      end
    end
  end
  out[#out + 1] = ".SH OPTIONS OF ALL VERBS\nOptions may stand before or after"
    .. " the verb and the key; \\-\\-option=VALUE is the same. A DURATION is a"
    .. " number of seconds, or one with s, m, h or d behind it."
  for _, option in ipairs(words.options) do
    if help.is_general(option) then
      term(out, help.shown(option), option.help)
    end
  end
  out[#out + 1] = ".SH EXIT STATUS"
  for _, status in ipairs(words.statuses) do term(out, status[1], status[2]) end
  for _, page in ipairs(PAGES) do
    out[#out + 1] = ".SH " .. page[1] .. "\n" .. page[2]
  end
  return table.concat(out, "\n") .. "\n"
end

-- ---- completion ----

-- In single quotes of a shell.
local function quote(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end

local KEYS = "dlock ls 2>/dev/null | sed 's/ .*//'"

-- Options by what completes their values.
local function options_of_kind(kind)
  local names = {}
  for _, option in ipairs(words.options) do
    if option.kind == kind then names[#names + 1] = option.name end
  end
  return names
end

local function takers()
  local names = {}
  for _, option in ipairs(words.options) do
    if option.takes then names[#names + 1] = option.name end
  end
  return names
end

local function verbs_with_keys()
  local names = {}
  for _, verb in ipairs(words.verbs) do
    if verb.complete == "key" then names[#names + 1] = verb.name end
  end
  return names
end

local function verb_names()
  local names = {}
  for _, verb in ipairs(words.verbs) do names[#names + 1] = verb.name end
  return names
end

local BASH = [[
# bash completion for dlock; made from its table of options.
_dlock() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local verb= i options
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) compopt -o default; COMPREPLY=(); return ;;
      @takers) ((i++)) ;;
      @verbs) verb=${verb:-${COMP_WORDS[i]}} ;;
    esac
  done
  case $previous in
    @files) compopt -o filenames
      COMPREPLY=($(compgen -f -- "$word")); return ;;
    @directories) compopt -o filenames
      COMPREPLY=($(compgen -d -- "$word")); return ;;
    @takers) COMPREPLY=(); return ;;
  esac
  case $verb in
@cases
    *) options='@general' ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *)
      case $verb in
        '') COMPREPLY=($(compgen -W '@names' -- "$word")) ;;
        @keyed) COMPREPLY=($(compgen -W "$(@keys)" -- "$word")) ;;
      esac ;;
  esac
}
complete -F _dlock dlock
]]

local function fill(template, values)
  return (template:gsub("@(%l+)", function(name) return values[name] end))
end

local function general_names()
  local names = {}
  for _, option in ipairs(words.options) do
    if help.is_general(option) then names[#names + 1] = option.name end
  end
  return names
end

local function bash()
  local cases = {}
  for _, verb in ipairs(words.verbs) do
    cases[#cases + 1] = ("    %s) options='%s' ;;"):format(verb.name,
      table.concat(names_of(verb), " "))
  end
  return fill(BASH, {
    takers = table.concat(takers(), "|"),
    verbs = table.concat(verb_names(), "|"),
    files = table.concat(options_of_kind("file"), "|"),
    directories = table.concat(options_of_kind("directory"), "|"),
    cases = table.concat(cases, "\n"),
    general = table.concat(general_names(), " "),
    names = table.concat(verb_names(), " "),
    keyed = table.concat(verbs_with_keys(), "|"), keys = KEYS,
  })
end

-- An option as zsh's _arguments takes it.
local function zsh_option(option)
  local explained = option.help:gsub("[][:]", "\\%0")
  local action = option.kind == "file" and "_files"
    or option.kind == "directory" and "_files -/" or " "
  return quote(("%s%s[%s]%s"):format(option.name,
    option.name:find("^%-%-") and option.takes and "=" or "", explained,
    option.takes and (":%s:%s"):format(option.takes:gsub("[][:'].*", ""),
      action) or ""))
end

local ZSH = [==[
#compdef dlock
# zsh completion for dlock; made from its table of options.
_dlock_keys() {
  local -a keys
  keys=(${(f)"$(@keys)"})
  compadd -a keys
}
_dlock() {
  local -a verbs general own
  local verb word
  verbs=(
@verbs
  )
  general=(
@general
  )
  for word in ${words[2,CURRENT-1]}; do
    case $word in
      @names) verb=$word; break ;;
    esac
  done
  case $verb in
@cases
  esac
  if [[ -z $verb ]]; then
    _arguments $general '1: :{_describe verb verbs}'
  else
    case $verb in
      @keyed) _arguments $general $own '1: :' '*: :_dlock_keys' ;;
      *) _arguments $general $own ;;
    esac
  fi
}
_dlock "$@"
]==]

local function zsh()
  local verbs, general, cases = {}, {}, {}
  for _, verb in ipairs(words.verbs) do
    verbs[#verbs + 1] = "    " .. quote(verb.name .. ":"
      .. verb.help:gsub(":", "\\:"))
    local own = {}
    for _, option in ipairs(words.options) do
      if words.belongs(option, verb) and not help.is_general(option) then
        own[#own + 1] = zsh_option(option)
      end
    end
    cases[#cases + 1] = ("    %s) own=(%s) ;;"):format(verb.name,
      table.concat(own, " "))
  end
  for _, option in ipairs(words.options) do
    if help.is_general(option) then
      general[#general + 1] = "    " .. zsh_option(option)
    end
  end
  return fill(ZSH, { verbs = table.concat(verbs, "\n"), keys = KEYS,
    general = table.concat(general, "\n"), cases = table.concat(cases, "\n"),
    names = table.concat(verb_names(), "|"),
    keyed = table.concat(verbs_with_keys(), "|") })
end

local function fish()
  local out = { "# fish completion for dlock; made from its table of options.",
    "complete -c dlock -f" }
  local all = table.concat(verb_names(), " ")
  local function add(condition, option)
    local name = option.name:match("^%-%-(.+)$")
    out[#out + 1] = ("complete -c dlock%s %s %s%s -d %s"):format(condition,
      name and "-l" or "-s", name or field(option),
      not option.takes and "" or (option.kind == "file"
        or option.kind == "directory") and " -r -F" or " -x",
      quote(option.help))
  end
  for _, option in ipairs(words.options) do
    if help.is_general(option) then add("", option) end
  end
  for _, verb in ipairs(words.verbs) do
    out[#out + 1] = ("complete -c dlock -n 'not __fish_seen_subcommand_from %s'"
      .. " -a %s -d %s"):format(all, verb.name, quote(verb.help))
    local seen = (" -n '__fish_seen_subcommand_from %s'"):format(verb.name)
    for _, option in ipairs(words.options) do
      if words.belongs(option, verb) and not help.is_general(option) then
        add(seen, option)
      end
    end
    if verb.complete == "key" then
      out[#out + 1] = ('complete -c dlock%s -a "(%s)"'):format(seen, KEYS)
    end
  end
  return table.concat(out, "\n") .. "\n"
end

local kinds = { man = man, bash = bash, zsh = zsh, fish = fish }

---@param kind "man"|"bash"|"zsh"|"fish"
---@return string
return function(kind)
  return kinds[kind]()
end
