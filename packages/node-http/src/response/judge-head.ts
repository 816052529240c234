// The two decisions of a capture. Before the head is sent, core decides how to handle the response.
// At the end, the number of bytes decides whether the body is complete.

import type { ServerResponse } from 'node:http'
import {
  type CapturedHead,
  type HeaderList,
  type Natives,
  type OriginEnd,
  OWN_FIELDS,
  type PartOfBody,
  type Reply,
} from '@stampede/core/adapter'
import { clearReason } from '../request/http2.ts'
import type { BodyCollector } from './body.ts'
import { BodyCut } from './body-cut.ts'
import { applyFields, hasField, missingDate, restoreFields } from './header-fields.ts'
import type { CaptureObserver } from './hold-end.ts'
import { correctStored } from './late-cookie.ts'
import { type OuterFields, storedHead } from './outer-fields.ts'
import { editWriteHead, namesPassed, readWriteHead } from './write-head.ts'
import { framedHeaders, hasBody, isSendable } from './write-response.ts'

export interface JudgedHead {
  /** Arguments for writeHead, after core's decision. */
  readonly args: readonly unknown[]
  /** The head that a hit replays. */
  readonly stored: CapturedHead
  /** Whether to capture the body. */
  readonly keep: boolean
  readonly cookie: boolean
  /** Set if the client does not get the whole body. */
  readonly cut: BodyCut | undefined
}

export const NO_HEAD: JudgedHead = {
  args: [],
  stored: { status: 0, headers: [] },
  keep: false,
  cookie: false,
  cut: undefined,
}

/** The decision that is used if Node would reject the reply of core. */
const UNSENDABLE = { capture: false, add: [], remove: OWN_FIELDS, instead: undefined }

/**
 * Asks core how to handle the head that writeHead(...args) would send. `whole` is the body, if it
 * is known.
 */
export function judgeHead(
  res: ServerResponse,
  args: readonly unknown[],
  observer: CaptureObserver,
  outer: OuterFields,
  whole: Uint8Array | undefined,
  natives: Natives | undefined,
): JudgedHead | { readonly replacement: Reply; readonly of: CapturedHead } {
  const head = readWriteHead(res, args)
  const { status, headers } = head
  for (const name of namesPassed(args)) outer.set(name)
  const decision = observer.onHead(head, whole, natives)
  if (decision.action === 'replace' && isSendable(decision.reply)) {
    return { replacement: decision.reply, of: storedHead(status, headers, outer) }
  }
  const { capture: keep, add, remove, instead } = decision.action === 'send' ? decision : UNSENDABLE
  correctStored(observer.sentAs ?? res, add)
  const dated = keep && res.sendDate ? missingDate(headers) : NO_FIELDS
  const stored = storedHead(status, dated.length === 0 ? headers : [...headers, ...dated], outer)
  const cookie = hasField(headers, 'set-cookie')
  const all = dated.length === 0 ? add : [...add, ...dated]
  if (instead === undefined || ('headers' in instead && !isSendable(instead))) {
    return { args: editWriteHead(res, args, all, remove), stored, keep, cookie, cut: undefined }
  }
  if ('headers' in instead) {
    const cut = new BodyCut(0, 0, instead.body)
    return { args: headInstead(res, instead, outer), stored, keep, cookie, cut }
  }
  const { start, end } = instead
  const cut = new BodyCut(start, end)
  return { args: headOfPart(res, args, instead, all, remove), stored, keep, cookie, cut }
}

const NO_FIELDS: HeaderList = []

/** Replaces the handler's head with that of a 304 or 416. */
function headInstead(res: ServerResponse, reply: Reply, outer: OuterFields): readonly unknown[] {
  restoreFields(res, outer.list)
  for (const name of OWN_FIELDS) res.removeHeader(name)
  applyFields(res, framedHeaders(reply, res.req.method))
  return withStatus(res, reply.status, [])
}

/** Turns the handler's head into that of a partial response. */
function headOfPart(
  res: ServerResponse,
  args: readonly unknown[],
  { status, fields }: PartOfBody,
  add: HeaderList,
  remove: readonly string[],
): readonly unknown[] {
  const replaced = fields.map(([name]) => name)
  const edited = editWriteHead(res, args, [...add, ...fields], [...remove, ...replaced])
  return withStatus(res, status, edited.slice(1))
}

function withStatus(res: ServerResponse, status: number, args: readonly unknown[]): unknown[] {
  clearReason(res)
  // Another layer may write the head later from this property.
  res.statusCode = status
  return [status, ...args.filter((arg) => typeof arg !== 'string')]
}

/** The body is complete unless it is too large or its length differs from the declared one. */
export function endOf(
  head: CapturedHead,
  body: BodyCollector,
  method: string | undefined,
): OriginEnd {
  if (!body.fits) return { type: 'not-captured', reason: 'too-large' }
  if (!hasBody(head.status, method)) return { type: 'complete', head, body: new Uint8Array() }
  const declared = head.headers.find(([name]) => name === 'content-length')?.[1]
  return declared === undefined || Number(declared) === body.bytes
    ? { type: 'complete', head, body: body.take() }
    : { type: 'not-captured', reason: 'incomplete' }
}
