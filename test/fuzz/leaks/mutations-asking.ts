// Mutations of revalidation: how the cache uses a 304 of the app.

import { drop, type Edit, type Mutation, SOURCE } from './mutation.ts'

/** The full response replaces a 304, and a layer in front of the cache sets a cookie. */
const COOKIES_IN_FRONT: readonly Edit[] = [
  {
    file: SOURCE.layer,
    from: "if (!setsCookie(this.#res)) end = { type: 'replaced', head }",
    to: "end = { type: 'replaced', head }",
  },
  {
    file: SOURCE.koaRun,
    from: "type === 'complete' || type === 'replaced'",
    to: "type === 'complete'",
  },
]

const JUDGED = 'judgeHead(meant, request,'

export const ASKING: readonly Mutation[] = [
  {
    name: 'a 304 with Set-Cookie is merged into what is stored',
    edits: [
      {
        file: SOURCE.run,
        from: JUDGED,
        to: "judgeHead(about ? { ...meant, headers: meant.headers.filter((field) => field[0] !== 'set-cookie') } : meant, request,",
      },
      ...COOKIES_IN_FRONT,
    ],
  },
  {
    name: 'a cookie set in front of the cache is not seen with what a 304 stands for',
    edits: COOKIES_IN_FRONT,
  },
  drop(
    'what a 304 says against sharing is not heeded',
    SOURCE.run,
    JUDGED,
    'judgeHead(about ? { ...meant, headers: about.stored.headers } : meant, request,',
  ),
  drop('a 304 that nobody asked for is stored', SOURCE.statuses, '  206, 304, 401,', '  206, 401,'),
  drop(
    'a 304 is taken for an answer to us where nothing was asked',
    SOURCE.validate,
    'conditions.length === 0 || ',
  ),
  drop(
    'what is for another Vary selection is asked about',
    SOURCE.validate,
    'conditions.length === 0 || !sameSelection(entry.vary, request.headers)',
    'conditions.length === 0',
  ),
  drop(
    'a 304 about another version updates what is stored',
    SOURCE.validate,
    'if (!isAbout(headers, head.headers)) return undefined',
  ),
  drop(
    'the Vary of a 304 takes the place of what is stored',
    'core/src/http/freshen.ts',
    'varyNames([...stored, ...said])',
    'varyNames(said)',
  ),
  drop(
    'fields of one request are stored with what a 304 says',
    SOURCE.run,
    'const updated = this.#entryOf(verdict, meant, stored.body, NONE, stored.kind)',
    'const updated = { ...this.#entryOf(verdict, meant, stored.body, NONE), fields: toFields(meant.headers) }',
  ),
  {
    name: 'a 304 that is written behind the back of Koa reaches a client that asked for none',
    edits: [
      {
        file: 'koa/src/koa-run.ts',
        from: 'observer.conditions && guardNotModified(ctx.res, observer, [ctx, ctx.response])',
        to: 'undefined',
      },
    ],
    framework: 'koa3',
  },
  drop(
    'layers in front of the cache see its conditions',
    'node-http/src/node-exchange.ts',
    '      then()\n',
  ),
]
