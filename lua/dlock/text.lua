-- Text for people. Keys are any bytes and URLs have passwords, so all parts of
-- a message pass through here.
local text = {}

local LONGEST = 64

-- Bytes for a set of a pattern. %c, %w, %a, %s and string.lower follow the
-- locale: in ISO-8859-1 they match bytes of UTF-8 characters, in Turkish I has
-- another small letter.
text.CONTROL = "%z\1-\31\127"
text.LETTERS = "A-Za-z"
text.ALNUM = "0-9" .. text.LETTERS

local CONTROLS = "[" .. text.CONTROL .. "]"

local function escape(byte)
  return ("\\x%02x"):format(byte:byte())
end

function text.has_controls(s)
  return s:find(CONTROLS) ~= nil
end

--- Makes ASCII letters small.
function text.lower(s)
  return (s:gsub("[A-Z]", function(letter)
    return string.char(letter:byte() + 32)
  end))
end

--- A key in quotes, escaped, cut when long.
function text.quote(key)
  local shown, rest = key, ""
  if #key > LONGEST then
    shown, rest = key:sub(1, LONGEST - 3), "..."
  end
  return "'" .. shown:gsub("[^\32-\126]", escape) .. rest .. "'"
end

local function escape_both(byte)
  return "\\xc2" .. escape(byte)
end

--- Another program's text for a terminal: control characters as \xNN, also
--- U+0080 to U+009F; uncut.
function text.escape(s)
  return (s:gsub(CONTROLS, escape):gsub("\194([\128-\159])", escape_both))
end

--- An error value as text. Never raises, whatever its __tostring does.
function text.of_error(problem)
  local ok, shown = pcall(tostring, problem)
  if ok and type(shown) == "string" then
    return shown
  end
  return ("an object (a %s) that cannot be shown as text")
    :format(type(problem))
end

-- Replaces the locale's decimal point.
local function dotted(shown)
  return (shown:gsub("[^0-9a-z+-]+", "."))
end

--- A number for people: 30, not 30.0.
function text.number(n)
  return n ~= n and "NaN" or dotted(("%.14g"):format(n))
end

local NOT_IN_WORDS = ("[^%s_.,:-]"):format(text.ALNUM)

--- Any bytes as one word that no shell takes apart: a blank as +, others as
--- %XX.
function text.to_word(s)
  return (s:gsub(NOT_IN_WORDS, function(byte)
    return byte == " " and "+" or ("%%%02X"):format(byte:byte())
  end))
end

--- The bytes of such a word. Text with blanks is none, and stays.
function text.of_word(s)
  if s:find(" ", 1, true) then
    return s
  end
  return (s:gsub("%+", " "):gsub("%%(%x%x)", function(hex)
    return string.char(tonumber(hex, 16))
  end))
end

--- A name in SQL; all but our own may be a word of SQL's.
function text.identifier(name)
  return name == "dlock" and name or '"' .. name:gsub('"', '""') .. '"'
end

function text.tenths(n)
  return dotted(("%.1f"):format(n))
end

return text
