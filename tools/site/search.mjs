// Topics and words of the search of the docs site. Readers use some words that a page does not
// have, and some words of a query count little.
// @ts-check

/**
 * Topics, the pages of each, and the words of readers who look for it. The search finds the pages
 * by these words, too.
 * @type {Readonly<Record<string, { pages: RegExp, words: string }>>}
 */
export const TOPICS = {
  purging: {
    pages: /^guide\/purging$/,
    words:
      'clear cache, clear one page, clear after deploy, invalidate, delete, remove everything, flush, evict, bust, expire after an update',
  },
  caching: {
    pages: /^guide\/(caching|options)$/,
    words:
      'what is cache, cache stampede, thundering herd, dogpile, set ttl, set the time to live, expire, max-age, cache for 5 minutes, defaults',
  },
  options: {
    pages: /^guide\/options$/,
    words: 'all options, configuration, settings, createStampede',
  },
  why: {
    pages: /^guide\/why-nothing-is-cached$/,
    words: 'always miss, never hit, not cached, not working, debug',
  },
  storable: {
    pages: /^guide\/why-nothing-is-cached$/,
    words: 'which responses, status codes, cacheable',
  },
  keys: {
    pages: /^guide\/keys$/,
    words: 'query string, mobile, api version header, accept, vary, tenant, content negotiation',
  },
  stale: {
    pages: /^guide\/stale$/,
    words: 'stale while revalidate, refresh in background, outdated',
  },
  failures: {
    pages: /^guide\/stale$/,
    words: 'origin down, 500 error, stale if error, fallback',
  },
  waiting: { pages: /^guide\/waiting$/, words: 'timeout, slow handler, queue, 503' },
  data: {
    pages: /^guide\/data$/,
    words:
      'database query, memoize, SQL, Prisma, API call, cache a function, cache post request, warm up',
  },
  idempotency: {
    pages: /^guide\/idempotency$/,
    words:
      'double payment, double click, duplicate order, Stripe, webhook, retry POST, retry an upload, client retries, exactly once',
  },
  'repeated runs': {
    pages: /^guide\/idempotency-faults$/,
    words: 'runs twice, uncertain, settle a key, operator',
  },
  locks: {
    pages: /^guide\/locks$/,
    words:
      'mutex, deadlock, cron, run job once, once a day, scheduled task, one server, leader election, semaphore',
  },
  cron: { pages: /^guide\/locks$/, words: '' },
  fencing: { pages: /^guide\/fencing$/, words: '' },
  front: {
    pages: /^guide\/front$/,
    words: 'WebSocket, SSE, HTTP/2, reverse proxy, any framework',
  },
  nest: { pages: /^(start|guide)\/nest$/, words: '' },
  production: {
    pages: /^guide\/production$/,
    words:
      'SIGTERM, graceful shutdown, memory limit, deploy, checklist, upgrade to a new version, switch off, roll back',
  },
  redis: {
    pages: /^guide\/redis$/,
    words:
      'share the cache between servers, Redis down, Redis unavailable, connection lost, Valkey, ElastiCache, ACL',
  },
  topologies: {
    pages: /^guide\/redis-topologies$/,
    words: 'Redis Cluster, Sentinel, ACL, permissions, keys in Redis',
  },
  metrics: {
    pages: /^guide\/metrics$/,
    words: 'Prometheus, Grafana, hit ratio, monitoring, statistics',
  },
  alerts: { pages: /^guide\/alerts$/, words: '' },
  tracing: { pages: /^guide\/tracing$/, words: 'OpenTelemetry, spans, Jaeger, Datadog' },
  'command line': {
    pages: /^guide\/command-line$/,
    words: 'list all keys, all keys in Redis, show an entry, inspect, terminal, CLI',
  },
  dashboard: { pages: /^guide\/dashboard$/, words: 'user interface, web page, admin panel' },
  errors: { pages: /^guide\/events$/, words: 'exception, error code, warning, listener' },
  compression: { pages: /^guide\/http$/, words: 'gzip, brotli, zstd, compress' },
  revalidation: {
    pages: /^guide\/http$/,
    words: 'ETag, 304, If-None-Match, Last-Modified, range',
  },
  users: {
    pages: /^guide\/users$/,
    words:
      'logged in users, per user, per customer, personalized, admin, JWT, bearer token, private pages',
  },
  sessions: {
    pages: /^guide\/users$/,
    words: 'only guests, login, signed in, cookie session, express session, cookie',
  },
  testing: {
    pages: /^recipes\/testing$/,
    words: 'supertest, jest, vitest, mocha, unit test, fake timers',
  },
  cdn: {
    pages: /^recipes\/cdn$/,
    words: 'Cloudflare in front, Cloudflare, Fastly, CloudFront, nginx, Varnish, s-maxage, edge',
  },
  kubernetes: {
    pages: /^recipes\/deploy-targets$/,
    words: 'Kubernetes, Docker, pod, helm, probe, rolling update, PM2',
  },
  serverless: {
    pages: /^recipes\/deploy-targets$/,
    words: 'serverless, Lambda, Vercel, Cloud Run, Cloud Functions, Vite',
  },
  repeats: {
    pages: /^guide\/idempotency-faults$/,
    words: 'runs twice, uncertain, settle a key, operator',
  },
  postgres: {
    pages: /^guide\/postgres$/,
    words:
      'exactly once, transaction, PostgreSQL, Postgres, Drizzle, Kysely, Knex, PgBouncer, outbox, serializable',
  },
  'middleware order': {
    pages: /^guide\/caching$/,
    words: 'rate limit, helmet, cors, logger, body parser, login page',
  },
  graphql: {
    pages: /^guide\/data$/,
    words: 'Apollo, persisted queries',
  },
  languages: {
    pages: /^guide\/keys$/,
    words: 'locale, translation, language, German, English, French',
  },
  moving: {
    pages: /^migrate\/response-caches$/,
    words: 'upgrade from, replace, alternative, switch',
  },
  apicache: { pages: /^migrate\/response-caches$/, words: '' },
  redlock: { pages: /^migrate\/redlock/, words: '' },
  express: {
    pages: /^start\/express$/,
    words: 'install, getting started, quick start, tutorial',
  },
  koa: { pages: /^start\/koa$/, words: '' },
  changes: { pages: /^(changelog|guide\/production)$/, words: '' },
  promises: { pages: /^promises$/, words: '' },
}

/** @param {string} path of the page, relative to the repository */
const wordsOf = (path) => {
  const page = path.replace(/^docs\/|\.md$/g, '')
  const topics = Object.values(TOPICS).filter(({ pages }) => pages.test(page))
  return topics.flatMap(({ words }) => words || []).join(', ')
}

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
    /^(cache|cached|caching|caches|stampede|use|using|how|do|does|i|to|the|a|an|in|of|on|for|my|with|by|is|it|and|from|not|why|can|be|when|what|after|at|page|see|get|show|two|one|other|same|still|while|new|all|if|or|are|into|want|need)$/
  const isOther = (/** @type {string} */ each) => !weak.test(each)
  return weak.test(term) && terms.some(isOther) ? 0.05 : 1
}
