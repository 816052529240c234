// Words for the search of the docs site. Readers use some words that a page does not have, and some
// words of a query count little.
// @ts-check

/** By page: words of readers who look for this page. The search finds the page by them. */
const WORDS = {
  'guide/purging':
    'clear cache, clear one page, invalidate, delete, flush, evict, bust, expire after an update',
  'guide/caching':
    'what is cache, cache stampede, thundering herd, dogpile, set ttl, set the time to live, expire, max-age, cache for 5 minutes',
  'guide/why-nothing-is-cached': 'always miss, never hit, not cached, not working, debug',
  'guide/what-is-cached': 'which responses, status codes, cacheable',
  'guide/keys': 'query string, language, mobile, api version header, accept, vary, tenant',
  'guide/serve-stale': 'stale while revalidate, refresh in background, outdated',
  'guide/failures': 'origin down, 500 error, stale if error, fallback',
  'guide/waiting': 'timeout, slow handler, queue, 503',
  'guide/data':
    'database query, memoize, SQL, Prisma, API call, cache a function, cache post request, warm up',
  'guide/idempotency':
    'double payment, double click, duplicate order, Stripe, webhook, retry POST, exactly once',
  'guide/locks':
    'mutex, deadlock, cron, run job once, scheduled task, one server, leader election, semaphore',
  'guide/front': 'WebSocket, SSE, HTTP/2, reverse proxy, any framework',
  'guide/production':
    'PM2, SIGTERM, graceful shutdown, memory limit, deploy, checklist, upgrade to a new version',
  'guide/redis': 'Redis down, Redis unavailable, connection lost, Valkey, ElastiCache, ACL',
  'guide/metrics': 'Prometheus, Grafana, hit ratio, monitoring',
  'guide/tracing': 'OpenTelemetry, spans, Jaeger, Datadog',
  'guide/command-line': 'list all keys, all keys in Redis, show an entry, inspect, terminal, CLI',
  'guide/dashboard': 'user interface, web page, admin panel',
  'guide/errors': 'exception, error code, warning',
  'guide/compression': 'gzip, brotli, zstd',
  'guide/revalidation': 'ETag, 304, If-None-Match, Last-Modified',
  'recipes/auth': 'logged in users, per user, admin, JWT, bearer token, private pages',
  'recipes/sessions': 'logged in users, only guests, login, signed in, cookie session',
  'recipes/testing': 'supertest, jest, vitest, mocha, unit test, fake timers',
  'recipes/cdn':
    'Cloudflare in front, Cloudflare, Fastly, CloudFront, nginx, Varnish, s-maxage, edge',
  'recipes/kubernetes': 'Docker, pod, helm, probe, rolling update',
  'recipes/serverless': 'Lambda, Vercel, Cloud Run, Cloud Functions',
  'recipes/graphql': 'Apollo, persisted queries',
  'recipes/i18n': 'locale, translation, language',
  'migrate/README': 'upgrade from, replace, alternative, switch',
  'start/express': 'install, getting started, quick start, tutorial',
}

/** @param {string} path of the page, relative to the repository */
const wordsOf = (path) =>
  Object.entries(WORDS).find(([page]) => path === `docs/${page}.md`)?.[1] ?? ''

/**
 * The HTML that the search reads: the page, with its words after the first heading.
 * @param {string} source
 * @param {{ relativePath: string, frontmatter?: { search?: boolean } }} env
 * @param {{ render(source: string, env: object): string }} md
 */
export function renderForSearch(source, env, md) {
  const html = md.render(source, env)
  return html.replace('</h1>', `</h1>\n<p>${wordsOf(env.relativePath)}</p>`)
}

/**
 * Words that most pages have, or that only join others, count little beside other words. The
 * browser runs this function, so it uses nothing from outside.
 * @param {string} term
 * @param {number} _at
 * @param {string[]} terms
 */
export function boostTerm(term, _at, terms) {
  const weak =
    /^(cache|cached|caching|caches|stampede|use|using|how|do|does|i|to|the|a|an|in|of|on|for|my|with|by|is|it|and|from|not|why|can|be|when|what|after|at)$/
  const isOther = (/** @type {string} */ each) => !weak.test(each)
  return weak.test(term) && terms.some(isOther) ? 0.05 : 1
}
