// Serves a folder on a loopback port. usage: node serve.mjs DIR PORT
import { createServer } from "node:http"
import { readFile } from "node:fs"
import { extname, join, normalize } from "node:path"

const [dir, port] = process.argv.slice(2)
const TYPES = { ".html": "text/html", ".js": "text/javascript",
  ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json",
  ".woff2": "font/woff2", ".png": "image/png" }
createServer((request, response) => {
  const path = normalize(decodeURI(request.url.split("?")[0]))
  readFile(join(dir, path.endsWith("/") ? path + "index.html" : path),
    (problem, data) => {
      response.writeHead(problem ? 404 : 200,
        { "content-type": TYPES[extname(path)] ?? "text/html" })
      response.end(data)
    })
}).listen(Number(port), "127.0.0.1")
