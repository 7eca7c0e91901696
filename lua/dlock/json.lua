-- Writes JSON. A table with [1], or an empty one, is an array. In a string that
-- is not UTF-8 (a key may be any bytes) each byte from 0x80 up becomes the
-- character of that number.
local text = require "dlock.text"

local json = {}

local MARK = "..." -- the end of a string that was cut

-- The characters from U+0080 on. None begins within another.
local NEXT = "[\128-\191]"
local CHARACTERS = {
  "[\194-\223]" .. NEXT,
  "\224[\160-\191]" .. NEXT,
  "\237[\128-\159]" .. NEXT,
  "[\225-\236\238\239]" .. NEXT .. NEXT,
  "\240[\144-\191]" .. NEXT .. NEXT,
  "\244[\128-\143]" .. NEXT .. NEXT,
  "[\241-\243]" .. NEXT .. NEXT .. NEXT,
}

local function is_utf8(s)
  for _, character in ipairs(CHARACTERS) do
    s = s:gsub(character, "?")
  end
  return not s:find("[\128-\255]")
end

local function escape(byte)
  return ("\\u%04x"):format(byte:byte())
end

-- Cuts the text between quotes, but not inside an escape or a character.
local function cut(shown, most)
  local kept = shown:sub(1, most - #MARK):gsub("\\u?%x?%x?%x?$", "")
  if shown:find("^[\128-\191]", #kept + 1) then
    kept = kept:gsub("[\192-\255][\128-\191]*$", "")
  end
  return kept .. MARK
end

local SPECIAL = "[" .. text.CONTROL .. '"\\]'

local function quote(s, most)
  local shown = s:gsub(SPECIAL, escape)
  if is_utf8(s) then -- also control characters from U+0080 on
    shown = shown:gsub("\194([\128-\159])", escape)
  else
    shown = shown:gsub("[\128-\255]", escape)
  end
  if most and #shown > most then
    shown = cut(shown, most)
  end
  return '"' .. shown .. '"'
end

local encode

local function array(list, most)
  local out = {}
  for i, value in ipairs(list) do out[i] = encode(value, most) end
  return "[" .. table.concat(out, ",") .. "]"
end

local function object(fields, most)
  local names, out = {}, {}
  for name in pairs(fields) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    out[i] = quote(name) .. ":" .. encode(fields[name], most)
  end
  return "{" .. table.concat(out, ",") .. "}"
end

local function number(n)
  return n == n and n - n == 0 and text.number(n) or "null"
end

function encode(value, most)
  if type(value) == "string" then
    return quote(value, most)
  elseif type(value) == "number" then
    return number(value)
  elseif type(value) == "table" then
    return (value[1] ~= nil or next(value) == nil)
      and array(value, most) or object(value, most)
  end
  return value == nil and "null" or tostring(value)
end

---@param most? integer bytes of a string, which is cut there
json.encode = encode

return json
