// Mutations of revalidation: how the cache uses a 304 of the app.

import { drop, type Edit, type Mutation, SOURCE } from './mutation.ts'

/** The full response replaces a 304, and a layer in front of the cache sets a cookie. */
const COOKIES_IN_FRONT: readonly Edit[] = [
  {
    file: SOURCE.layer,
    from: "if (this.#res.headersSent && !setsCookie(this.#res)) end = { type: 'replaced', head }",
    to: "if (this.#res.headersSent) end = { type: 'replaced', head }",
  },
  {
    file: SOURCE.koaRun,
    from: "else if (end.type === 'not-captured') return",
    to: "else if (end.type !== 'complete') return",
  },
]

const JUDGED = 'judgeHead(judgedHead, request,'

export const ASKING: readonly Mutation[] = [
  {
    name: 'a 304 with Set-Cookie is merged into the stored entry',
    edits: [
      {
        file: SOURCE.run,
        from: JUDGED,
        to: "judgeHead(this.#status === 304 ? { ...judgedHead, headers: judgedHead.headers.filter((field) => field[0] !== 'set-cookie') } : judgedHead, request,",
      },
      ...COOKIES_IN_FRONT,
    ],
  },
  {
    name: 'a cookie set in front of the cache is missed when the stored entry replaces a 304',
    edits: COOKIES_IN_FRONT,
  },
  drop(
    'fields of a 304 that forbid sharing are ignored',
    SOURCE.run,
    JUDGED,
    "judgeHead(this.#status === 304 ? { ...judgedHead, headers: judgedHead.headers.filter((field) => field[0] !== 'cache-control') } : judgedHead, request,",
  ),
  drop(
    'a 304 to a request without a condition is stored',
    SOURCE.statuses,
    '  206, 304, 401,',
    '  206, 401,',
  ),
  drop(
    'a 304 counts as a revalidation although the cache sent no condition',
    SOURCE.validate,
    'conditions.length === 0 || ',
  ),
  drop(
    'an entry of another Vary selection is revalidated',
    SOURCE.validate,
    'conditions.length === 0 || !selects(entry, request.headers)',
    'conditions.length === 0',
  ),
  drop(
    'a 304 about another version updates the stored entry',
    SOURCE.validate,
    'if (!confirms(headers, head.headers)) return undefined',
  ),
  drop(
    'the Vary of a 304 replaces the stored one',
    'core/src/http/conditional.ts',
    'varyNames([...stored, ...received])',
    'varyNames(received)',
  ),
  drop(
    'fields of one request in a 304 are stored',
    SOURCE.run,
    'const entry = { ...updated.entry, provenance',
    'const entry = { ...updated.entry, fields: toFields(newHead.headers), provenance',
  ),
  {
    name: 'a 304 that is written past Koa reaches a client without a condition',
    edits: [
      {
        file: SOURCE.koaRun,
        from: 'observer.conditions && guardNotModified(ctx, observer)',
        to: 'undefined',
      },
    ],
    framework: 'koa3',
  },
  drop(
    "layers in front of the cache see the cache's conditions",
    'node-http/src/node-exchange.ts',
    'if (showsEarly) showConditionals?.()',
  ),
]
