// Checks of ours that keep people apart, each with a way to break it. The fuzzer has to notice every one; those that
// are a second line of defence are broken together with the first.

export interface Edit {
  /** End of the path. */
  readonly file: string
  readonly from: string
  readonly to: string
}

export interface Mutation {
  readonly name: string
  readonly edits: readonly Edit[]
}

const STORABLE = 'core/src/cache/storable.ts'
const KEY = 'core/src/cache/key.ts'
const RUN = 'core/src/cache/run-origin.ts'
const VARY = 'core/src/http/vary.ts'
const HANDLE = 'core/src/cache/handle-cached.ts'
const ADMIT = 'core/src/cache/admit.ts'
const CONTROL = 'core/src/http/cache-control.ts'

function drop(name: string, file: string, from: string, to = ''): Mutation {
  return { name, edits: [{ file, from, to }] }
}

const NO_SET_COOKIE: Edit = {
  file: STORABLE,
  from: "if (headers.some(([name]) => name === 'set-cookie' || name === 'set-cookie2')) return 'set-cookie'",
  to: '',
}
const SAME_SELECTION: Edit = {
  file: VARY,
  from: 'return vary.every(([name, value]) => selectField(name, headers) === value)',
  to: 'return vary.length >= 0 || headers === undefined',
}

export const MUTATIONS: readonly Mutation[] = [
  { name: 'a response with Set-Cookie is stored', edits: [NO_SET_COOKIE] },
  {
    name: 'a response with Set-Cookie is stored, and the cookie is replayed',
    edits: [
      NO_SET_COOKIE,
      { file: 'core/src/http/headers.ts', from: "  'set-cookie',\n", to: '' },
      {
        file: 'node-http/src/response-layer.ts',
        from: '|| !shared',
        to: '|| (!shared && false)',
      },
    ],
  },
  drop(
    'a cookie set in front of the cache, while the head is written, is not seen (node-http)',
    'node-http/src/response-layer.ts',
    '|| !shared',
    '|| (!shared && false)',
  ),
  drop(
    'a cookie set in front of the cache, after it, is not seen (koa)',
    'koa/src/koa-exchange.ts',
    'setsCookie(ctx.res) ?',
    '(setsCookie(ctx.res) && false) ?',
  ),
  drop(
    'headers in the arguments of writeHead are not read',
    'node-http/src/write-head.ts',
    'for (const [name, values] of given) fields.set(name, values)',
    'void given',
  ),
  drop('private is not heeded', STORABLE, "if (cc.private) return 'private'"),
  drop('no-store is not heeded', STORABLE, "if (cc.noStore) return 'no-store'"),
  drop('no-cache is not heeded', STORABLE, "if (cc.noCache) return 'no-cache'"),
  drop(
    'Pragma: no-cache is not heeded',
    STORABLE,
    "if (parseCacheControl(pragma).noCache) return 'no-cache'",
  ),
  drop('directives have to be in lower case', CONTROL, 'name.toLowerCase()', 'name'),
  drop(
    'directives with a value, as private="", are not flags',
    CONTROL,
    'if (flag !== undefined) read',
    'if (flag !== undefined && quoted === undefined) read',
  ),
  drop(
    'only the first line of Cache-Control is read',
    CONTROL,
    'of values) {',
    'of values.slice(0, 1)) {',
  ),
  drop('Vary: * is not heeded', VARY, "if (name === '*' || !FIELD_NAME", 'if (!FIELD_NAME'),
  drop(
    'only the first line of Vary is read',
    VARY,
    "headerValues(headers, 'vary'))",
    "headerValues(headers, 'vary').slice(0, 1))",
  ),
  { name: 'an entry of another Vary selection is used', edits: [SAME_SELECTION] },
  drop(
    'an entry of another Vary selection answers a HEAD',
    HANDLE,
    'return sameSelection(entry.vary, headers) ? entry : undefined',
    'return entry',
  ),
  drop(
    'an entry of another Vary selection stands in for an error',
    RUN,
    '|| !sameSelection(entry.vary, request.headers)',
    '',
  ),
  {
    name: 'Vary: Cookie and Vary: Authorization are stored, and the selection is not compared',
    edits: [
      SAME_SELECTION,
      {
        file: STORABLE,
        from: "if (vary.includes('cookie') && !cookiesInKey) return 'vary-cookie'",
        to: 'void cookiesInKey',
      },
      {
        file: STORABLE,
        from: "if (vary.includes('authorization') && !inKey('authorization')) return 'vary-authorization'",
        to: '',
      },
    ],
  },
  drop('requests with Authorization take part', ADMIT, 'headers.authorization !== undefined ||'),
  drop(
    'requests with Cookie take part',
    ADMIT,
    "=== '' ? undefined : 'cookie'",
    '=== null ? undefined : undefined',
  ),
  drop(
    'keyed cookies are not in the key',
    KEY,
    "if (typeof config.cookies === 'object') variant",
    "if (typeof config.cookies === 'number') variant",
  ),
  drop(
    'the identity is not in the key',
    KEY,
    'if (config.identity !== undefined) {',
    'if (config.identity === null) {',
  ),
  drop(
    'headers of the vary option are not in the key',
    KEY,
    'union(config.vary, learnedVary)',
    'union([], learnedVary)',
  ),
  drop(
    'parts of the key run into each other',
    KEY,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: text of a source
    'return `${text.length}:${text}`',
    'return text',
  ),
  drop(
    'awkward texts of callers are not escaped',
    'core/src/ports/key.ts',
    '.test(text) ?',
    '.test("") ?',
  ),
  drop(
    'the host is not in the key',
    KEY,
    'field(host.toLowerCase())',
    "field(host === '' ? '' : '-')",
  ),
  drop('the query is not in the key', KEY, 'queryPart(target.slice(mark + 1), rule)', "'?'"),
  drop(
    'parameters of one name are sorted by their values',
    KEY,
    'named.sort((a, b) => (a.base < b.base ? -1 : Number(a.base > b.base)))',
    'named.sort((a, b) => (a.text < b.text ? -1 : 1))',
  ),
  drop(
    'an echoed origin is stored without Vary: Origin',
    STORABLE,
    "return varies || origins.every((origin) => origin === '*') ? undefined : 'cors-origin'",
    'return varies || origins ? undefined : undefined',
  ),
  drop(
    'statuses about one request are stored',
    STORABLE,
    "if (status < 200 || NEVER.has(status)) return 'status'",
    'void NEVER',
  ),
  drop(
    'what says nothing of its freshness is stored',
    STORABLE,
    'lifetimeMs(head.status, explicit, ageMs, config)',
    'lifetimeMs(head.status, explicit, ageMs, config) ?? 5_000',
  ),
  drop(
    'fields set in front of the cache are stored',
    'node-http/src/header-fields.ts',
    '!sameValues(values, outer.get(name))',
    'values.length > 0 || !sameValues(values, outer.get(name))',
  ),
  {
    name: 'those who waited for an answer get it, also if it is not for them',
    edits: [
      { file: RUN, from: 'if (!verdict.store) resolve(refused(verdict, head.status))', to: '' },
      { file: RUN, from: 'capture: verdict.store', to: 'capture: true' },
      {
        file: RUN,
        from: "if (verdict === undefined || !verdict.store) return { type: 'abandoned' }",
        to: "if (verdict === undefined) return { type: 'abandoned' }",
      },
      {
        file: RUN,
        from: 'initialAgeMs, varyNames } = verdict',
        to: 'initialAgeMs, varyNames } = verdict.store ? verdict : { freshMs: 1, staleWhileRevalidateMs: 0, staleIfErrorMs: 0, initialAgeMs: 0, varyNames: [] }',
      },
    ],
  },
]
