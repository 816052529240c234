// Responses that a layer in front makes personal. A session sets its cookie after this middleware
// has returned, when Koa writes the head.

import type { OriginEnd } from '@stampede/core/adapter'
import { headSent, setsCookie } from '@stampede/node-http/adapter'
import type { Context } from 'koa'

/** Waits for the head: a response is complete only if its head left without a cookie. */
export async function unlessPersonal(
  ctx: Context,
  ending: Promise<OriginEnd> | OriginEnd,
): Promise<OriginEnd> {
  const sent = headSent(ctx.res)
  const declined: OriginEnd = { type: 'not-captured', reason: 'declined' }
  const isPersonal = sent.then((how) => how === 'sent' && setsCookie(ctx.res))
  // Waiters cannot use a personal response: they are released before its stream ends.
  const end = await Promise.race([ending, isPersonal.then((is) => (is ? declined : ending))])
  if (end.type === 'not-captured' || end.type === 'failed') return end
  if ((await sent) === 'gone') return { type: 'not-captured', reason: 'incomplete' }
  return (await isPersonal) ? declined : end
}
