// Pages of the docs site: where a file of the repository is on the site, and the order of the
// sidebar. A new page in docs/ appears in the sidebar of its folder without a change here.
// @ts-check
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
export const REPOSITORY = JSON.parse(
  readFileSync(join(ROOT, 'packages/core/package.json'), 'utf8'),
).repository.url.replace(/^git\+|\.git$/g, '')

/** Pages outside of docs/ that the site has, too. */
const ROOT_PAGES = [
  'ARCHITECTURE.md',
  'GLOSSARY.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
]
/** Patterns of Markdown files that are no pages of the site. */
export const NO_PAGES = [
  '!(docs|tools)/**/*.md',
  '.*/**',
  'tools/!(site)/**',
  `!(${ROOT_PAGES.join('|').replaceAll('.md', '')}).md`,
]

/**
 * Path of a page on the site, as Markdown: `guide/locks.md` for `docs/guide/locks.md`.
 * @param {string} file relative to the repository
 */
export function pageOf(file) {
  const path = file.replace(/^(docs|tools\/site)\//, '').replace(/(^|\/)README\.md$/, '$1index.md')
  return ROOT_PAGES.includes(path) ? path.toLowerCase() : path
}

const isPage = (/** @type {string} */ file) =>
  file.endsWith('.md') && (/^(docs|tools\/site)\//.test(file) || ROOT_PAGES.includes(file))

/**
 * A link for the site. On GitHub links are relative to the file. A file that is no page of the
 * site is shown by the repository.
 * @param {string} from file that has the link, relative to the repository
 * @param {string} href
 */
export function siteLink(from, href) {
  if (/^([a-z][a-z+.-]*:|[#/])/i.test(href)) return href
  const [path = '', hash] = href.split('#')
  const file = posix.join(posix.dirname(from), path)
  const anchor = hash === undefined ? '' : `#${hash}`
  if (isPage(file)) return `/${pageOf(file)}${anchor}`
  const isFolder = !/\.\w+$/.test(posix.basename(file)) && !/^LICENSE$/.test(posix.basename(file))
  return `${REPOSITORY}/${isFolder ? 'tree' : 'blob'}/main/${file.replace(/\/$/, '')}${anchor}`
}

/**
 * Anchor of a heading as GitHub makes it, so that the same link works there and on the site.
 * @param {string} heading
 */
export const slugOf = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '')
    .replaceAll(' ', '-')

/** Title of a page: its first heading. @param {string} file */
export function titleOf(file) {
  const [, title = file] = /^# +(.+)$/m.exec(readFileSync(join(ROOT, file), 'utf8')) ?? []
  return title.replace(/`|\*\*/g, '').replace(/^(\d+)\. /, '$1 ')
}

/**
 * Description of a page: its first paragraph as text, cut at the end of a sentence if it is long.
 * @param {string} markdown without front matter
 */
export function descriptionOf(markdown) {
  const [, paragraph = ''] =
    /^# .+\n+(?:## .+\n+)?((?:(?!```|- |[|#><\n]).+\n?)+)/m.exec(markdown) ?? []
  const text = paragraph
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`|\*\*/g, '')
    .replace(/\s+/g, ' ')
    .trim()
  const [cut = text] = text.length > 200 ? (/^.{60,200}?\.(?= )/.exec(text) ?? []) : []
  return cut
}

const MANUAL = 'manual'
const REFERENCE = 'reference'
const INTERNALS = 'internals'

/**
 * Groups of pages, each with the sidebar that has it. `*` is each page of the folder that no group
 * names.
 */
const GROUPS = [
  [MANUAL, 'Get started', 'docs/start/*'],
  [
    MANUAL,
    'Caching',
    'docs/guide/{caching,options,why-nothing-is-cached,users,keys,purging,stale,waiting,http,data}',
  ],
  [
    MANUAL,
    'Idempotency',
    'docs/guide/{idempotency,idempotency-faults,postgres} docs/idempotency-policy',
  ],
  [MANUAL, 'Locks', 'docs/guide/{locks,fencing,quorum}'],
  [MANUAL, 'Frameworks', 'docs/guide/{fastify,hono,nest,front}'],
  [MANUAL, 'More guides', 'docs/guide/*'],
  [MANUAL, 'Recipes', 'docs/recipes/*'],
  [
    MANUAL,
    'Operate',
    'docs/guide/{production,redis,redis-topologies,metrics,alerts,tracing,events,dashboard,command-line}',
  ],
  [MANUAL, 'Migration', 'docs/migrate/*'],
  [MANUAL, 'Compare', 'docs/{compare,promises}'],
  [REFERENCE, 'API', 'tools/site/api/*'],
  [REFERENCE, 'API for stores and adapters', 'tools/site/api/authors/*'],
  [REFERENCE, 'Glossary and versions', 'GLOSSARY CHANGELOG'],
  [INTERNALS, 'Internals', 'ARCHITECTURE docs/* CONTRIBUTING SECURITY'],
  // Reports of tests and benchmarks are not in the sidebar of users.
  [INTERNALS, 'Evidence', 'docs/evidence/*'],
  [INTERNALS, 'Decisions', 'docs/decisions/*'],
]

/** @param {string} names such as `docs/guide/{locks,quorum}` */
const expand = (names) =>
  names.split(' ').flatMap((name) => {
    const [, before = name, list, after = ''] = /^(.*)\{(.+)\}(.*)$/.exec(name) ?? []
    return list === undefined ? [name] : list.split(',').map((each) => before + each + after)
  })

const NAMED = new Set(GROUPS.flatMap(([, , names = '']) => expand(names)))

/** The index of a folder comes first. @param {string} file */
const rank = (file) => (/\/(README|index)\.md$/.test(file) ? 0 : 1)

/** Files of a name of a group, without those that do not exist. @param {string} name */
function filesOf(name) {
  if (!name.endsWith('/*')) return existsSync(join(ROOT, `${name}.md`)) ? [`${name}.md`] : []
  const folder = name.slice(0, -2)
  if (!existsSync(join(ROOT, folder))) return []
  return readdirSync(join(ROOT, folder))
    .filter((file) => file.endsWith('.md') && !NAMED.has(`${folder}/${file.slice(0, -3)}`))
    .map((file) => `${folder}/${file}`)
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
}

/** All groups that have pages, in order. */
export function groups() {
  return GROUPS.map(([bar = '', text = '', names = '']) => {
    const files = expand(names).flatMap(filesOf)
    return {
      bar,
      text,
      items: files.map((file) => ({ text: titleOf(file), link: `/${pageOf(file)}` })),
    }
  }).filter(({ items }) => items.length > 0)
}

/**
 * For each page its sidebar: the groups of one kind. The groups do not collapse, because the
 * default theme would nest a button in a button.
 * @param {ReturnType<typeof groups>} all
 */
export const sidebars = (all) =>
  Object.fromEntries(
    all.flatMap(({ bar, items }) => {
      const mine = all
        .filter((each) => each.bar === bar)
        .map(({ text, items }) => ({ text, items }))
      return items.map(({ link }) => [link, mine])
    }),
  )
