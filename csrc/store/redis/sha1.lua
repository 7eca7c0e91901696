-- SHA-1 (FIPS 180-4) by arithmetic alone: Lua 5.1 has no operators for bits.
-- Numbers are whole and below 2^53, so every Lua counts them exactly.

local BYTES = {} -- [256 * a + b] is a XOR b
for a = 0, 255 do
  for b = 0, 255 do
    local sum, x, y = 0, a, b
    for bit = 0, 7 do
      sum = sum + (x + y) % 2 * 2 ^ bit
      x, y = math.floor(x / 2), math.floor(y / 2)
    end
    BYTES[256 * a + b] = sum
  end
end

local function xor(a, b)
  local sum, place = 0, 1
  for _ = 1, 4 do
    local x, y = a % 256, b % 256
    sum = sum + BYTES[256 * x + y] * place
    a, b, place = (a - x) / 256, (b - y) / 256, place * 256
  end
  return sum
end

local function both(a, b) return (a + b - xor(a, b)) / 2 end

local function rotate(a, n)
  local high = math.floor(a / 2 ^ (32 - n))
  return a % 2 ^ (32 - n) * 2 ^ n + high
end

local function words_of(block)
  local w = {}
  for i = 1, 16 do
    local a, b, c, d = block:byte(4 * i - 3, 4 * i)
    w[i] = ((a * 256 + b) * 256 + c) * 256 + d
  end
  for i = 17, 80 do
    w[i] = rotate(xor(xor(w[i - 3], w[i - 8]), xor(w[i - 14], w[i - 16])), 1)
  end
  return w
end

local function mix(i, b, c, d)
  if i <= 20 then return xor(d, both(b, xor(c, d))), 0x5A827999 end
  if i <= 40 then return xor(xor(b, c), d), 0x6ED9EBA1 end
  if i <= 60 then return both(b, c) + both(d, xor(b, c)), 0x8F1BBCDC end
  return xor(xor(b, c), d), 0xCA62C1D6
end

-- The digest of a text, in 40 hexadecimal digits.
return function(text)
  local h = { 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0 }
  local bits, length = 8 * #text, ""
  for _ = 1, 8 do
    length = string.char(bits % 256) .. length
    bits = math.floor(bits / 256)
  end
  local padded = text .. "\128" .. ("\0"):rep((55 - #text) % 64) .. length
  for at = 1, #padded, 64 do
    local a, b, c, d, e = h[1], h[2], h[3], h[4], h[5]
    for i, w in ipairs(words_of(padded:sub(at, at + 63))) do
      local f, k = mix(i, b, c, d)
      local sum = (rotate(a, 5) + f + e + k + w) % 2 ^ 32
      a, b, c, d, e = sum, a, rotate(b, 30), c, d
    end
    for i, v in ipairs { a, b, c, d, e } do h[i] = (h[i] + v) % 2 ^ 32 end
  end
  return (("%08x"):rep(5):format(h[1], h[2], h[3], h[4], h[5]))
end
