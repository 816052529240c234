// Configuration of the docs site. The pages are the Markdown files of the repository, in place.
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { defineConfig } from 'vitepress'
import {
  descriptionOf,
  groups,
  NO_PAGES,
  pageOf,
  REPOSITORY,
  ROOT,
  sidebars,
  siteLink,
  slugOf,
} from '../pages.mjs'
import { boostTerm, renderForSearch } from '../search.mjs'

const HERE = `${ROOT}tools/site`
const all = groups()
const first = (name) => all.find(({ text }) => text === name)?.items[0]?.link
const start = first('Get started') ?? first('Caching')
const TABS = ['Recipes', 'Migration', 'Operate', 'Compare', 'API', 'Internals']
/** The entry of the navigation bar that is highlighted on the pages of a group. */
const tabOf = ({ bar, text }) => {
  if (bar === 'manual') return TABS.includes(text) ? text : 'Guide'
  return bar === 'reference' ? 'API' : 'Internals'
}
const nav = ['Guide', ...TABS].flatMap((text) => {
  const links = all.filter((group) => tabOf(group) === text).flatMap(({ items }) => items)
  // VitePress matches the path without its extension, and without `index`.
  const paths = links.map(({ link }) => link.replace(/(index)?\.md$/, ''))
  const link = text === 'Guide' ? start : first(text)
  return link === undefined ? [] : [{ text, link, activeMatch: `^(${paths.join('|')})$` }]
})

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

/**
 * Guides come before recipes, then pages for a move from another library, then types. Types come
 * before pages for contributors, and pages before their parts. The browser runs this function, so
 * it uses nothing from outside.
 */
function boostDocument(id, _term, { titles }) {
  const [, folder] = /\/(start|guide|recipes|migrate|api)\/(?!authors)/.exec(id) ?? []
  const kind = { start: 4, guide: 4, recipes: 3, migrate: 2, api: 1 }[folder] ?? 0.5
  return titles.length === 0 ? 2 * kind : kind
}

/** A typing error in a short word is another word: 409 and 404, lock and look. */
const fuzzy = (term) => (term.length > 4 ? 0.2 : false)

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
  // VitePress does not add the base to links of the head.
  transformHead: ({ siteData }) => [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${siteData.base}logo.svg` }],
  ],
  transformPageData(page) {
    const description = descriptionOf(readFileSync(join(ROOT, page.filePath), 'utf8'))
    return description === '' ? {} : { description }
  },
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
    search: {
      provider: 'local',
      options: {
        _render: renderForSearch,
        miniSearch: { searchOptions: { boostDocument, boostTerm, fuzzy } },
      },
    },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    editLink: {
      pattern: `${REPOSITORY}/edit/main/:path`,
      text: 'Edit this page',
    },
    notFound: {
      title: 'Page not found',
      quote: 'The page was moved or removed, or the address has a typing error. Try the search.',
      linkText: 'To the first page',
      linkLabel: 'To the first page',
    },
    footer: { message: 'Released under the MIT License.' },
  },
})
