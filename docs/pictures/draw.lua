-- Draws the pages' pictures: lua docs/pictures/draw.lua [DIR]
-- Each picture is a list of shapes; colours follow the reader's light or dark
-- mode. A spec draws them anew and compares, so none is drawn by hand.

local dir = arg and arg[1] or "docs/pictures"

local STYLE = [[
<style>
  text { font: 14px system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 12px; }
  .bold { font-weight: 600; }
  .line { stroke: #57606a; stroke-width: 1.5; fill: none; }
  .dash { stroke: #57606a; stroke-dasharray: 4 4; fill: none; }
  .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.5; }
  .a { fill: #54aeff; } .b { fill: #4ac26b; } .c { fill: #d4a72c; }
  .bad { fill: #ff8182; } .idle { fill: #d0d7de; }
  .head { fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .line, .dash { stroke: #8b949e; } .head { fill: #8b949e; }
    .box { fill: #21262d; stroke: #8b949e; }
    .a { fill: #1f6feb; } .b { fill: #238636; } .c { fill: #9e6a03; }
    .bad { fill: #b62324; } .idle { fill: #484f58; }
  }
</style>]]

local picture = {}
picture.__index = picture

local function new(width, height, title)
  return setmetatable({ width = width, height = height, title = title },
    picture)
end

function picture:add(form, ...)
  self[#self + 1] = form:format(...)
  return self
end

local function escape(text)
  return (text:gsub("[&<>]",
    { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }))
end

-- anchor: start, middle or end.
function picture:text(x, y, text, anchor, class)
  return self:add('<text x="%g" y="%g" text-anchor="%s" class="%s">%s</text>',
    x, y, anchor or "start", class or "", escape(text))
end

function picture:bar(x, y, width, height, class)
  return self:add('<rect x="%g" y="%g" width="%g" height="%g" rx="3"'
    .. ' class="%s"/>', x, y, width, height, class)
end

-- A box with lines of text in its middle.
function picture:box(x, y, width, height, lines, class)
  self:bar(x, y, width, height, class or "box")
  for i, line in ipairs(lines) do
    self:text(x + width / 2, y + height / 2 + (i - (#lines + 1) / 2) * 18 + 5,
      line, "middle", i == 1 and "bold" or "small")
  end
  return self
end

function picture:line(x1, y1, x2, y2, class)
  return self:add('<line x1="%g" y1="%g" x2="%g" y2="%g" class="%s"/>', x1, y1,
    x2, y2, class or "line")
end

function picture:arrow(x1, y1, x2, y2)
  self:line(x1, y1, x2, y2)
  -- Arrows are level or upright.
  local angle = y2 > y1 and 90 or y2 < y1 and -90 or x2 < x1 and 180 or 0
  return self:add('<path d="M0 0 L-9 -4.5 L-9 4.5 Z" class="head"'
    .. ' transform="translate(%g %g) rotate(%.4g)"/>', x2, y2, angle)
end

function picture:save(name)
  local file = assert(io.open(dir .. "/" .. name .. ".svg", "w"))
  file:write(('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"'
    .. ' width="%d" height="%d" role="img">\n<title>%s</title>\n%s\n%s\n'
    .. "</svg>\n")
    :format(self.width, self.height, self.width, self.height,
      escape(self.title), STYLE, table.concat(self, "\n")))
  assert(file:close())
end

-- Which store to choose: questions downwards, answers to the right.
local function choose()
  local p = new(720, 510, "Which store to choose")
  local rows = {
    { "One machine only?", "yes", { "file://", "no server; a dead holder",
      "frees its lock at once" } },
    { "Is what it guards in a database?", "yes", { "postgres://, mysql://",
      "the data's own COMMIT", "checks the fence, exactly" } },
    { "May two holders at once do harm?", "yes", {
      "zookeeper://, etcd://, consul://", "a majority decides;",
      "nothing is lost at a failover" } },
    { "Must a failover lose no grant?", "yes", { "redis+sentinel://",
      'wait_replicas = "all"', "equal priorities" } },
    { "Is there a Redis or Valkey?", "yes", { "redis://",
      "fast; check the fence", "where the data is" } },
  }
  for i, row in ipairs(rows) do
    local y = 20 + (i - 1) * 100
    p:box(20, y, 300, 60, { row[1] })
    p:arrow(320, y + 30, 400, y + 30)
    p:text(360, y + 22, row[2], "middle", "small")
    p:box(400, y - 8, 300, 76, row[3], "b")
    if i < #rows then
      p:arrow(170, y + 60, 170, y + 100)
      p:text(178, y + 85, "no", "start", "small")
    end
  end
  p:save("choose")
end

-- A holder that was stopped writes late, and the fence refuses the write.
local function fence()
  local p = new(720, 250, "A paused holder and the fence")
  local names = { "A", "lock", "B", "database" }
  for i, name in ipairs(names) do
    p:text(20, 45 + (i - 1) * 55, name, "start", "bold")
    p:line(100, 40 + (i - 1) * 55, 700, 40 + (i - 1) * 55, "dash")
  end
  p:bar(110, 28, 90, 24, "a"):text(155, 45, "works", "middle", "small")
  p:bar(200, 28, 250, 24, "idle"):text(325, 45, "stopped (GC, swap, SIGSTOP)",
    "middle", "small")
  p:bar(450, 28, 60, 24, "bad"):text(480, 45, "writes", "middle", "small")
  p:bar(110, 83, 190, 24, "a"):text(205, 100, "A, fence 33", "middle", "small")
  p:bar(320, 83, 240, 24, "b"):text(440, 100, "B, fence 34", "middle", "small")
  p:line(300, 70, 300, 120):text(300, 66, "deadline", "middle", "small")
  p:bar(320, 138, 240, 24, "b"):text(440, 155, "works", "middle", "small")
  p:arrow(380, 162, 380, 195):text(388, 184, "34: taken", "start", "small")
  p:arrow(505, 52, 505, 195)
  p:text(513, 184, "33 < 34: refused", "start", "small")
  p:text(110, 238, "held() is false from the deadline on; what runs later is"
    .. " stopped only by the fence.", "start", "small")
  p:save("fence")
end

-- First come, first served, with readers and a writer.
local function queue()
  local p = new(720, 190, "Queue of a read-write lock")
  p:text(20, 45, "holders", "start", "bold")
  p:box(110, 20, 90, 40, { "reader 1" }, "b"):box(210, 20, 90, 40,
    { "reader 2" }, "b")
  p:text(20, 115, "queue", "start", "bold")
  local waiting = { { "writer 3", "a" }, { "reader 4", "idle" },
    { "reader 5", "idle" }, { "writer 6", "idle" } }
  for i, one in ipairs(waiting) do
    p:box(110 + (i - 1) * 110, 90, 100, 40, { one[1] }, one[2])
  end
  p:arrow(160, 90, 160, 62)
  p:text(110, 160, "Reader 4 does not pass writer 3: no stream of readers"
    .. " starves a writer.", "start", "small")
  p:text(110, 178, "Readers 4 and 5 come in together once writer 3 is done.",
    "start", "small")
  p:save("queue")
end

-- Renewal at a third of the ttl.
local function renewal()
  local p = new(720, 200, "Renewal against the ttl")
  p:line(60, 150, 700, 150)
  for i = 0, 6 do
    local x = 60 + i * 100
    p:line(x, 145, x, 155):text(x, 172, ("%d s"):format(i * 10), "middle",
      "small")
  end
  for i = 0, 3 do
    local x = 60 + i * 100
    p:arrow(x, 150, x, 40 + i * 22)
    p:bar(x, 30 + i * 22, 300, 14, i < 3 and "b" or "idle")
  end
  p:text(70, 22, "granted: held until 30 s", "start", "small")
  p:text(470, 63, "renewed at 10 s: until 40 s", "start", "small")
  p:text(570, 85, "at 20 s: until 50 s", "start", "small")
  p:text(60, 192, "ttl = 30. Each bar begins when the request was sent. Two"
    .. " renewals may fail before the lock is lost.", "start", "small")
  p:save("renewal")
end

-- What becomes of a lock when the server is lost.
local function failover()
  local p = new(720, 240, "Failover by store")
  local rows = {
    { "file://", "the machine restarts", "every lock is free", "b" },
    { "redis://", "restart without the last writes", "two holders until the"
      .. " first one renews", "bad" },
    { "redis+sentinel://", "a replica takes over", "two holders until the first"
      .. " one renews", "bad" },
    { '… wait_replicas = "all"', "a replica takes over", "the lock goes on",
      "b" },
    { "zookeeper://", "another leader", "the lock goes on", "b" },
  }
  for i, row in ipairs(rows) do
    local y = 12 + (i - 1) * 45
    p:text(16, y + 22, row[1], "start", "bold")
    p:text(200, y + 22, row[2], "start", "small")
    p:bar(410, y, 296, 34, row[4]):text(558, y + 22, row[3], "middle", "small")
  end
  p:save("failover")
end

-- The tables of `make bench-peers` in docs/performance.md: { name, rows = {
-- { name, figure, … }, … } } each.
local function peer_tables()
  local list, rows = {}, nil
  for line in io.lines("docs/performance.md") do
    local cells = {}
    for cell in line:gmatch("|%s*([^|]-)%s*%f[|]") do
      cells[#cells + 1] = cell
    end
    if cells[2] == "pairs/s" then
      rows = {}
      list[#list + 1] = { name = cells[1], rows = rows }
    elseif #cells == 0 then
      rows = nil
    elseif rows and not cells[1]:find "^%-" then
      rows[#rows + 1] = cells
    end
  end
  return list
end

local SHOWN = { { "pairs a second", 2 }, { "hand-off p50, µs", 4 },
  { "holds that change hands, %", 6 } }

-- Bars: dlock beside other libraries.
local function peers()
  local tables, height = peer_tables(), 20
  for _, one in ipairs(tables) do height = height + 44 + #one.rows * 26 end
  local p, y = new(720, height, "dlock beside other libraries"), 30
  for _, one in ipairs(tables) do
    p:text(16, y, one.name, "start", "bold")
    for i, row in ipairs(one.rows) do
      p:text(16, y + i * 26, row[1], "start", "small")
    end
    for i, shown in ipairs(SHOWN) do
      local x, column, most = i * 190 - 40, shown[2], 0
      p:text(x, y, shown[1], "start", "small")
      for _, row in ipairs(one.rows) do
        most = math.max(most, tonumber(row[column]))
      end
      for j, row in ipairs(one.rows) do
        local width = math.max(tonumber(row[column]) / most * 120, 1)
        p:bar(x, y + j * 26 - 14, width, 18,
          row[1]:find "^dlock" and "b" or "idle")
        p:text(x + width + 5, y + j * 26, row[column], "start", "small")
      end
    end
    y = y + 44 + #one.rows * 26
  end
  p:save("peers")
end

choose()
fence()
queue()
renewal()
failover()
peers()
