-- Random changes of texts: bytes and words go in, go out, are repeated; two
-- texts are joined. Drawn from a generator, so from its seed.

local mutate = {}
mutate.__index = mutate

--- texts: what it begins with; words: what goes in.
function mutate.new(random, texts, words)
  return setmetatable({ random = random, texts = texts, words = words },
    mutate)
end

function mutate:below(n)
  return math.floor(self.random:next() * n)
end

function mutate:one_of(list)
  return list[1 + self:below(#list)]
end

local edits = {}

edits[1] = function(self, s, at)
  return s:sub(1, at) .. string.char(self:below(256)) .. s:sub(at + 1)
end

edits[2] = function(self, s, at)
  return s:sub(1, at) .. s:sub(at + 2 + self:below(4))
end

edits[3] = function(self, s, at)
  return s:sub(1, at) .. self:one_of(self.words) .. s:sub(at + 1)
end

edits[4] = function(self, s, at)
  return s:sub(1, at) .. string.char(self:below(256)) .. s:sub(at + 2)
end

edits[5] = function(self, s, at)
  local part = s:sub(at + 1, at + self:below(12))
  return s:sub(1, at) .. part:rep(1 + self:below(3)) .. s:sub(at + 1)
end

edits[6] = function(self, s, at)
  local other = self:one_of(self.texts)
  return s:sub(1, at) .. other:sub(1 + self:below(#other + 1))
end

--- One of the texts, changed up to `most` (4) times; now and then not at all.
function mutate:text(most)
  local s = self:one_of(self.texts)
  for _ = 1, self:below((most or 4) + 1) do
    s = self:one_of(edits)(self, s, self:below(#s + 1))
  end
  return s
end

return mutate
