// Mutations of storing responses, and of sharing them with waiters.

import { drop, type Edit, type Mutation, SOURCE } from './mutation.ts'

const NO_SET_COOKIE: Edit = {
  file: SOURCE.storable,
  from: "for (const [name] of headers) if (SET_COOKIE.has(name)) return 'set-cookie'",
  to: '',
}
export const STORING: readonly Mutation[] = [
  { name: 'a response with Set-Cookie is stored', edits: [NO_SET_COOKIE] },
  {
    name: 'a response with Set-Cookie is stored, and the cookie is replayed',
    edits: [
      NO_SET_COOKIE,
      { file: SOURCE.headers, from: "  'set-cookie',\n", to: '' },
      {
        file: SOURCE.layer,
        from: '|| !shared',
        to: '|| (!shared && false)',
      },
    ],
  },
  drop(
    'a cookie that a layer in front sets while the head is written is missed (node-http)',
    SOURCE.layer,
    '|| !shared',
    '|| (!shared && false)',
  ),
  drop(
    'a cookie that a layer in front sets after the cache is missed (koa)',
    SOURCE.head,
    "else if (setsCookie(res)) this.refusal = 'declined'",
  ),
  drop(
    'headers in the arguments of writeHead are ignored',
    'node-http/src/response/fields.ts',
    'if (passed !== undefined) setFields(res, passed, overHttp2)',
    'if (passed === res) setFields(res, passed, overHttp2)',
  ),
  drop('private is ignored', SOURCE.storable, "'private', 'no-cache'] as", "'no-cache'] as"),
  drop('no-store is ignored', SOURCE.storable, "['no-store', 'private'", "['private'"),
  drop('no-cache is ignored', SOURCE.storable, "'private', 'no-cache'] as", "'private'] as"),
  drop(
    'Pragma: no-cache is ignored',
    SOURCE.control,
    "parseCacheControl(hasPragma ? ['no-cache'] : lines)",
    'parseCacheControl(lines)',
  ),
  drop(
    'directives are recognised in lower case only',
    SOURCE.control,
    'name.toLowerCase()',
    'name',
  ),
  drop(
    'directives with a value, such as private="", are ignored',
    SOURCE.control,
    'read.set(name, Math.min(read.get(name)',
    'if (value === undefined || /^\\d/.test(value)) read.set(name, Math.min(read.get(name)',
  ),
  drop(
    'only the first line of Cache-Control is parsed',
    SOURCE.control,
    'of values) {',
    'of values.slice(0, 1)) {',
  ),
  drop(
    'an echoed origin is stored without Vary: Origin',
    SOURCE.storable,
    "return isShared ? undefined : 'cors-origin'",
    'return isShared ? undefined : undefined',
  ),
  drop(
    'statuses about one request are stored',
    SOURCE.storable,
    "if (status < 200 || NEVER_STORED.has(status)) return 'status'",
    'void NEVER_STORED',
  ),
  drop(
    'a response without freshness is stored',
    SOURCE.storable,
    'lifetimeMs(head.status, explicit, ageMs, config)',
    'lifetimeMs(head.status, explicit, ageMs, config) ?? 5_000',
  ),
  drop(
    'fields of layers in front of the cache are stored',
    'node-http/src/response/fields.ts',
    '!left.has(name) || left.get(name) !== linesOf(fields, name)',
    'true',
  ),
  {
    name: 'waiters get a response that is not shareable',
    edits: [
      {
        file: SOURCE.run,
        from: 'if (refused !== undefined) this.#end(notStored(refused, status))',
        to: '',
      },
      {
        file: SOURCE.run,
        from: 'const capture = refused === undefined',
        to: 'const capture = true',
      },
      {
        file: SOURCE.run,
        from: `const storable = this.#storable
    if (storable === undefined) return { type: 'abandoned' }`,
        to: `const storable = this.#storable ?? { 'freshMs': 1, 'staleWhileRevalidateMs': 0, 'staleIfErrorMs': 0, 'keepMs': 0, initialAgeMs: 0, varyNames: [], subjects: [] }
    if (this.#status === undefined) return { type: 'abandoned' }`,
      },
    ],
  },
  drop(
    'a leader whose client leaves fails its waiters',
    SOURCE.handle,
    '!hasResource && this.isGone()',
    'hasResource === undefined',
  ),
  drop(
    'a body that is cut for the leader is not stored',
    SOURCE.layer,
    'if (this.#body.add(args[0], args[1], whole))',
    "if (this.#args[0] === 206 || this.#args[0] === 304 || this.#args[0] === 416 ? this.#body.add('') : this.#body.add(args[0], args[1], whole))",
  ),
  drop(
    'the 304 or 416 of the leader is stored',
    SOURCE.layer,
    'if (!isPart) return headInstead(res, instead, this.#outer)',
    'if (!isPart) this.#stored = instead\n    if (!isPart) return headInstead(res, instead, this.#outer)',
  ),
  drop(
    'Stampede-Cache-Control is ignored',
    'core/src/http/freshness.ts',
    'of targets) {',
    'of targets.slice(targets.length)) {',
  ),
  drop(
    'tag fields reach clients',
    'core/src/ports/exchange.ts',
    "[OWN_FIELD, 'surrogate-key', 'cache-tag']",
    '[OWN_FIELD]',
  ),
  drop('fields of one request are stored', SOURCE.headers, "  'x-request-id',\n"),
]
