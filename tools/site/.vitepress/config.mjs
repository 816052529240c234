// Configuration of the docs site. The pages are the Markdown files of the repository, in place.
import { relative } from 'node:path'
import { defineConfig } from 'vitepress'
import {
  groups,
  NO_PAGES,
  pageOf,
  REPOSITORY,
  ROOT,
  sidebars,
  siteLink,
  slugOf,
} from '../pages.mjs'

const HERE = `${ROOT}tools/site`
const all = groups()
const first = (name) => all.find(({ text }) => text === name)?.items[0]?.link
const start = first('Get started') ?? first('Caching')
const nav = [
  { text: 'Guide', link: start },
  ...['Recipes', 'Migration', 'Operate', 'Compare', 'API', 'Internals'].map((text) => ({
    text,
    link: first(text),
  })),
].filter(({ link }) => link !== undefined)

/** Links of a page, and empty header cells of its tables, as the site needs them. */
function adaptPage(md) {
  md.core.ruler.push('site', ({ tokens, env }) => {
    const from = relative(ROOT, env.realPath ?? env.path ?? ROOT)
    for (const [at, { type, content }] of tokens.entries()) {
      // A header cell without text is no header for a screen reader.
      if (type !== 'inline' || content !== '' || tokens[at - 1].type !== 'th_open') continue
      tokens[at - 1].tag = 'td'
      tokens[at + 1].tag = 'td'
    }
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type !== 'link_open') continue
      token.attrSet('href', siteLink(from, token.attrGet('href') ?? ''))
    }
  })
}

/** Pages are outside of this folder, which has Vue. */
const vueForPages = {
  name: 'vue-for-pages',
  enforce: 'pre',
  resolveId(id, _importer, options) {
    if (!/^vue($|\/)/.test(id)) return null
    if (options.ssr) return { id, external: true }
    return this.resolve(id, `${HERE}/index.md`, { ...options, skipSelf: true })
  },
}

export default defineConfig({
  title: 'Stampede',
  description: 'Response caching, idempotency keys and distributed locks for Node HTTP servers',
  lang: 'en',
  srcDir: ROOT,
  srcExclude: NO_PAGES,
  outDir: `${HERE}/dist`,
  cacheDir: `${HERE}/.vitepress/cache`,
  rewrites: pageOf,
  ignoreDeadLinks: 'localhostLinks',
  metaChunk: true,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/logo.svg' }]],
  markdown: {
    anchor: { slugify: slugOf },
    config: adaptPage,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  vite: {
    plugins: [vueForPages],
    publicDir: `${HERE}/public`,
    build: { chunkSizeWarningLimit: 5_000 },
  },
  themeConfig: {
    logo: '/logo.svg',
    nav,
    sidebar: sidebars(all),
    start: start.replace('.md', '.html'),
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    editLink: {
      pattern: `${REPOSITORY}/edit/main/:path`,
      text: 'Edit this page',
    },
    footer: { message: 'Released under the MIT License.' },
  },
})
