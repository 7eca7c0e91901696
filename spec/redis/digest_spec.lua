-- The digests by which EVALSHA names the scripts: the server has to come to the
-- same ones.

local redis = require "spec.support.redis"
local redis_model = require "spec.sim.redis_model"
local sha1 = dofile "csrc/store/redis/sha1.lua"

describe("a script's digest", function()
  it("is SHA-1 (the examples of FIPS 180)", function()
    for text, digest in pairs {
      [""] = "da39a3ee5e6b4b0d3255bfef95601890afd80709",
      abc = "a9993e364706816aba3e25717850c26c9cd0d89d",
      abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq =
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
    } do
      assert.are.equal(digest, sha1(text))
    end
  end)

  it("is what redis.sha1hex says, whatever the length and the bytes", function()
    local r = redis.connect()
    local bytes = {}
    for i = 0, 255 do bytes[i + 1] = string.char((i * 167 + 201) % 256) end
    local all = table.concat(bytes)
    for _, length in ipairs { 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 256 } do
      local text = all:sub(1, length)
      assert.are.equal(r:call("EVAL", "return redis.sha1hex(ARGV[1])", "0",
        text), sha1(text), length)
    end
    r:close()
  end)

  it("is the server's name of it", function()
    local r = redis.connect()
    local texts, _, digests = redis_model.texts()
    for name, text in pairs(texts) do
      assert.are.equal(r:call("SCRIPT", "LOAD", text), digests[name], name)
    end
    r:close()
  end)
end)
