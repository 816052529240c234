// Fields that layers in front have set before the handler runs. Entries do not have them, because
// these layers set them for each request. A field that the handler has set too is its own, even
// with the same value: a layer may have set it for one request only.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { fieldsOf, missingDate } from './header-fields.ts'
import { watchCalls } from './watch-calls.ts'

const OUTER: unique symbol = Symbol('stampede.outer')

/** Fields that layers in front set on one response, and the names that its handler set too. */
export class OuterFields {
  readonly list: HeaderList
  /** Names that the framework copies to the response itself, so that a copy tells nothing. */
  copied: ReadonlySet<string> = new Set()
  readonly #ofHandler = new Set<string>()

  /** Create it before the handler runs. */
  constructor(res: ServerResponse & { [OUTER]?: OuterFields }) {
    this.list = res.getHeaderNames().length === 0 ? [] : fieldsOf(res.getHeaders())
    if (this.list.length === 0) return
    res[OUTER] = this
    // HTTP/2 responses of older versions of Node have no appendHeader.
    for (const method of ['setHeader', 'appendHeader'])
      watchCalls(res, method, (name) => this.set(String(name)))
  }

  /** Returns the fields of a response that has some. */
  static of(res: ServerResponse & { [OUTER]?: OuterFields }): OuterFields | undefined {
    return res[OUTER]
  }

  /** The handler has set this field on the response of Node. */
  set(name: string): void {
    if (!this.copied.has(name.toLowerCase())) this.setBy(name)
  }

  /** The handler has set this field on an object of the framework. */
  setBy(name: string): void {
    this.#ofHandler.add(name.toLowerCase())
  }

  /** `fields` without those of layers in front. */
  without(fields: HeaderList): HeaderList {
    if (this.list.length === 0) return fields
    return fields.filter(([name]) => this.#ofHandler.has(name) || !this.#isSame(name, fields))
  }

  #isSame(name: string, fields: HeaderList): boolean {
    const [before, now] = [this.list, fields].map((list) => list.filter(([key]) => key === name))
    return before?.length !== 0 && String(before) === String(now)
  }
}

/** The head that a hit replays: with a date, and without fields of layers in front. */
export function storedHead(status: number, fields: HeaderList, outer: OuterFields): CapturedHead {
  const date = missingDate(fields)
  const own = outer.without(fields)
  return { status, headers: date.length === 0 ? own : [...own, ...date] }
}
