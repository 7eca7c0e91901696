// The site that `make site` builds out of the pages: README first, then docs.
// A page that is in no group is an error, and so is a link that leads nowhere.
import { readdirSync } from "node:fs"

const GROUPS = [
  ["Start", ["choose", "cookbook", "howto", "command", "troubleshooting", "coming_from",
    "comparison"]],
  ["Stores", ["redis", "cluster", "redlock", "zookeeper", "etcd", "consul", "postgres", "mysql", "file",
    "fallback", "availability"]],
  ["Hosts", ["openresty", "loops"]],
  ["Promises", ["guarantees", "operating", "security", "faults", "reliability",
    "performance"]],
  ["Look up", ["reference", "design", "support"]],
]

const NAMES = { zookeeper: "ZooKeeper", etcd: "etcd", openresty: "OpenResty", howto: "How to" }
const title = (page) => NAMES[page]
  ?? page[0].toUpperCase() + page.slice(1).replace(/_/g, " ")

// Indented blocks are commands: they look and scroll as fenced ones do.
const asFence = (md) => {
  md.renderer.rules.code_block = (tokens, i, ...rest) => {
    tokens[i].info = "sh"
    return md.renderer.rules.fence(tokens, i, ...rest)
  }
}

const named = new Set(GROUPS.flatMap(([, pages]) => pages))
for (const file of readdirSync("docs")) {
  const page = file.replace(/\.md$/, "")
  if (file.endsWith(".md") && !named.has(page))
    throw new Error(`docs/${file} stands in no group of the site`)
}

export default {
  title: "dlock",
  description: "Distributed locks for Lua: Redis, ZooKeeper, etcd, Consul, PostgreSQL, MySQL, files",
  ignoreDeadLinks: [/^\.?\/.*\.(lua|conf)$/, /\/run$/], // check.mjs looks at files
  // Headings have the names that they have where Markdown is usually shown.
  markdown: { config: asFence, languageAlias: { cron: "sh", conf: "ini" }, anchor: { slugify: (text) => text.trim().toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "").replace(/ /g, "-") } },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Reference", link: "/docs/reference" },
      { text: "Guarantees", link: "/docs/guarantees" },
      { text: "Changes", link: "/CHANGELOG" },
    ],
    sidebar: [
      { text: "README", link: "/" },
      ...GROUPS.map(([text, pages]) => ({
        text,
        items: pages.map((p) => ({ text: title(p), link: `/docs/${p}` })),
      })),
      { text: "Examples", link: "/examples/" },
      { text: "Working on dlock", link: "/CONTRIBUTING" },
    ],
  },
}
