import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { StampedeStore } from '@stampede/core'
import { expect, it } from 'vitest'
import { readLookup } from './lookup-reply.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>

const FENCE = '1700000000000000'
/** Fields after the known ones make a reply large, and are ignored. */
const PADDING = 'x'.repeat(1024 * 1024)
const REPLIES = 40

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

function fenceIn(reply: LookupReply): string | undefined {
  if ('grant' in reply && reply.grant !== undefined) return reply.grant.fence
  return 'stored' in reply ? reply.stored?.fence : undefined
}

it.each([
  ['an entry', `FRESH 1 0 0 ${FENCE} 0 1 1 1 1`, Buffer.from('frame')],
  ['a grant', `LEASED 1 ${FENCE} 0 0`, undefined],
])('the fence of %s does not keep the reply of Redis in memory', (_, text, frame) => {
  const before = heapUsed()
  const fences = Array.from({ length: REPLIES }, (_, n) => {
    const raw = [Buffer.from(`${text} ${PADDING}${n}`), frame]
    return fenceIn(readLookup(raw, 'k', { token: 't', leaseMs: 1 }).reply)
  })
  expect(heapUsed() - before).toBeLessThan((REPLIES * PADDING.length) / 4)
  expect(fences).toEqual(Array(REPLIES).fill(FENCE))
})
