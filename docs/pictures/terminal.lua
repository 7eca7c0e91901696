-- Makes a picture of a terminal out of what it showed:
--   lua docs/pictures/terminal.lua TITLE [SECONDS-A-LINE] <TEXT >PICTURE.svg
-- With a number the lines appear one after another, as in a recording.

local title, pace = arg[1], tonumber(arg[2])
local lines, widest = {}, 40
for line in io.lines() do
  lines[#lines + 1] = line
  widest = math.max(widest, #line)
end
while lines[#lines] == "" do lines[#lines] = nil end

local function escape(text)
  return (text:gsub("[&<>]",
    { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }))
end

local CHARACTER, HEIGHT = 8.43, 19
local width = math.ceil(widest * CHARACTER) + 32
local height = #lines * HEIGHT + 56
local out = {}

local function add(form, ...)
  out[#out + 1] = form:format(...)
end

add('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d"'
  .. ' height="%d" role="img">', width, height, width, height)
add("<title>%s</title>", escape(title))
add [[<style>
  text { font: 14px ui-monospace, "DejaVu Sans Mono", monospace;
    fill: #e6edf3; white-space: pre; }
  .title { fill: #8b949e; text-anchor: middle; }
  .prompt { fill: #7ee787; }
  @keyframes appear { from { opacity: 0; } to { opacity: 1; } }
  .later { animation: appear 0.1s both; }
  @media (prefers-reduced-motion: reduce) { .later { animation: none; } }
</style>]]
add('<rect width="%d" height="%d" rx="8" fill="#161b22"/>', width, height)
for i, colour in ipairs { "#ff5f56", "#ffbd2e", "#27c93f" } do
  add('<circle cx="%d" cy="18" r="6" fill="%s"/>', i * 20, colour)
end
add('<text x="%d" y="23" class="title">%s</text>', width / 2, escape(title))
for i, line in ipairs(lines) do
  local class = line:find "^%$ " and "prompt" or ""
  local style = ""
  if pace then
    class, style = class .. " later", (' style="animation-delay:%.2fs"')
      :format((i - 1) * pace)
  end
  add('<text x="16" y="%d" class="%s" xml:space="preserve"%s>%s</text>',
    i * HEIGHT + 36, class, style, escape(line))
end
add "</svg>"
print(table.concat(out, "\n"))
