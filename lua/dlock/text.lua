-- Text for people: keys can be any bytes and URLs can hold passwords, so
-- whatever goes into a message passes through here first.
local text = {}

local LONGEST = 64

-- Control bytes, and letters and digits, to stand in a set of a pattern. (%c,
-- %w, %a and %s follow the locale, and so does string.lower: in one of
-- ISO-8859-1 half of a UTF-8 character can be such a byte, and in Turkish the
-- small letter of I is another one.)
text.CONTROL = "%z\1-\31\127"
text.LETTERS = "A-Za-z"
text.ALNUM = "0-9" .. text.LETTERS

local CONTROLS = "[" .. text.CONTROL .. "]"

local function escape(byte)
  return ("\\x%02x"):format(byte:byte())
end

--- Whether there is a control byte in it.
function text.has_controls(s)
  return s:find(CONTROLS) ~= nil
end

local function small(letter)
  return string.char(letter:byte() + 32)
end

--- In small letters, those of ASCII.
function text.lower(s)
  return (s:gsub("[A-Z]", small))
end

--- A key in quotes, bytes outside printable ASCII as \xNN, cut when long.
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

--- Text of another program for a line of a terminal, whole: control bytes and
--- the control characters U+0080 to U+009F as \xNN, all others as they are.
function text.escape(s)
  return (s:gsub(CONTROLS, escape):gsub("\194([\128-\159])", escape_both))
end

--- What other code raised or gave us, as text. Never raises, whatever its
--- __tostring does.
function text.of_error(problem)
  local ok, shown = pcall(tostring, problem)
  if ok and type(shown) == "string" then
    return shown
  end
  return ("an object (a %s) that cannot be shown as text")
    :format(type(problem))
end

-- What string.format made of a number: the locale may have a decimal point of
-- its own, and texts, JSON and metrics are to be the same everywhere.
local function dotted(shown)
  return (shown:gsub("[^0-9a-z+-]+", "."))
end

--- A number as a person would write it (30, not 30.0).
function text.number(n)
  return n ~= n and "NaN" or dotted(("%.14g"):format(n))
end

--- A number with one digit behind the point.
function text.tenths(n)
  return dotted(("%.1f"):format(n))
end

return text
