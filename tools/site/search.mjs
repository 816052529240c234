// Words for the search of the docs site. Readers use some words that a page does not have, and some
// words of a query count little.
// @ts-check

/** By page: words of readers who look for this page. The search finds the page by them. */
const WORDS = {
  'guide/purging':
    'clear cache, clear one page, invalidate, delete, flush, evict, bust, expire after an update',
  'guide/caching':
    'what is cache, cache stampede, thundering herd, dogpile, set ttl, set the time to live, expire, max-age, cache for 5 minutes, defaults',
  'guide/options': 'all options, configuration, settings, createStampede',
  'guide/why-nothing-is-cached':
    'always miss, never hit, not cached, not working, debug, which responses, status codes, cacheable',
  'guide/users':
    'logged in users, per user, admin, JWT, bearer token, private pages, only guests, login, signed in, cookie session, express session, cookie',
  'guide/keys':
    'query string, language, locale, translation, mobile, api version header, accept, vary, tenant, content negotiation',
  'guide/stale':
    'stale while revalidate, refresh in background, outdated, origin down, 500 error, stale if error, fallback',
  'guide/waiting': 'timeout, slow handler, queue, 503',
  'guide/http': 'gzip, brotli, zstd, compression, ETag, 304, If-None-Match, Last-Modified, range',
  'guide/data':
    'database query, memoize, SQL, Prisma, API call, cache a function, cache post request, warm up, GraphQL, Apollo',
  'guide/idempotency':
    'double payment, double click, duplicate order, Stripe, webhook, retry POST, exactly once',
  'guide/idempotency-faults': 'runs twice, uncertain, settle a key, operator',
  'guide/locks':
    'mutex, deadlock, cron, run job once, once a day, scheduled task, one server, leader election, semaphore',
  'guide/front': 'WebSocket, SSE, HTTP/2, reverse proxy, any framework',
  'guide/production':
    'SIGTERM, graceful shutdown, memory limit, deploy, checklist, upgrade to a new version, switch off, roll back',
  'guide/redis': 'Redis down, Redis unavailable, connection lost, Valkey, ElastiCache',
  'guide/redis-topologies': 'Redis Cluster, Sentinel, ACL, permissions, keys in Redis',
  'guide/metrics': 'Prometheus, Grafana, hit ratio, monitoring, statistics',
  'guide/tracing': 'OpenTelemetry, spans, Jaeger, Datadog',
  'guide/command-line': 'list all keys, all keys in Redis, show an entry, inspect, terminal, CLI',
  'guide/dashboard': 'user interface, web page, admin panel',
  'guide/events': 'exception, error code, warning, listener',
  'recipes/testing': 'supertest, jest, vitest, mocha, unit test, fake timers',
  'recipes/middleware-order': 'rate limit, helmet, cors, logger, body parser, login page',
  'recipes/cdn':
    'Cloudflare in front, Cloudflare, Fastly, CloudFront, nginx, Varnish, s-maxage, edge',
  'recipes/deploy-targets':
    'Kubernetes, Docker, pod, helm, probe, rolling update, PM2, Lambda, Vercel, Cloud Run, Cloud Functions, serverless, Vite',
  'migrate/response-caches': 'upgrade from, replace, alternative, switch',
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
