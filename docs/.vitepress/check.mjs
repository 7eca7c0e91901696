// Whether every link between the built pages leads to a page and a heading.
// usage: node check.mjs DIST
import { readdirSync, readFileSync, existsSync } from "node:fs"
import { join, dirname, normalize } from "node:path"

const dist = process.argv[2]
const files = readdirSync(dist, { recursive: true }).filter((f) =>
  f.endsWith(".html"))
const ids = new Map(files.map((file) => [file, new Set(
  [...readFileSync(join(dist, file), "utf8").matchAll(/ id="([^"]*)"/g)]
    .map((m) => m[1]))]))
let dead = 0
for (const file of files) {
  const text = readFileSync(join(dist, file), "utf8")
  for (const [, href] of text.matchAll(/<a [^>]*href="([^"]*)"/g)) {
    if (/^[a-z]+:/.test(href)) continue
    let [path, anchor] = decodeURI(href).split("#")
    path = path === "" ? file : normalize(path.startsWith("/")
      ? path.slice(1) : join(dirname(file), path))
    if (path === "" || path === "." || path.endsWith("/"))
      path = join(path, "index.html")
    if (!ids.has(path) && ids.has(path + ".html")) path += ".html"
    const fine = ids.has(path) ? !anchor || ids.get(path).has(anchor)
      : existsSync(join(dist, path))
    if (!fine) {
      console.log(`${file}: ${href} leads nowhere`)
      dead++
    }
  }
}
console.log(`${files.length} pages, ${dead} dead links`)
process.exit(dead ? 1 : 0)
