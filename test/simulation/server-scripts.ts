// The scripts of lua/ by their names, on the data of the simulated server: arguments and replies are what packages/redis
// sends and reads.

import type { Grant, Lifetimes, LookupReply, LookupRequest, StoredFrame } from '@stampede/core'
import type { ServerData } from './server-data.ts'
import { toldOf } from './server-fields.ts'

type Script = (
  data: ServerData,
  keys: readonly string[],
  args: readonly string[],
  raw: readonly unknown[],
) => unknown

const NONE = '-'

export const SCRIPTS: Readonly<Record<string, Script>> = {
  'lookup-or-lease': lookup,
  commit,
  extend,
  async 'end-lease'(data, [record = ''], args) {
    const [, , passMs, backoffMs, failure = '', key = '', , awaited] = args
    data.names.set(record, key)
    const grant = grantOf(record, args)
    const told = failure === '' ? undefined : JSON.parse(failure)
    const reply =
      Number(passMs) > 0
        ? await data.store.pass(grant, Number(passMs))
        : await data.store.fail(grant, told, Number(backoffMs), awaited === '1')
    if (reply === 'fenced') return 'FENCED'
    if (Number(passMs) > 0) data.fields.dropped(record)
    return 'ENDED'
  },
  async renew(data, [record = ''], args) {
    const [token = '', fence = '', leaseMs] = args
    if (record.includes('{=l:')) {
      return data.locks.renew(record, token, fence, Number(leaseMs)) ? 'RENEWED' : 'LOST'
    }
    const records = record.includes('{=i:') ? data.store.idempotency : data.store
    const [ours] = await records.renew([grantOf(record, args)], Number(leaseMs))
    return ours === true ? 'RENEWED' : 'LOST'
  },
  async purge(data, [record = ''], [soft, key = '']) {
    data.names.set(record, key)
    data.fields.purged(record, soft === '1')
    await data.store.purge(record, { soft: soft === '1' })
    return 'PURGED'
  },
  'append-purge': (data, _keys, [event = '', known]) => data.purges.append(event, Number(known)),
  'read-purges': (data, _keys, [known]) => data.purges.read(Number(known)),
  'acquire-lock'(data, [record = ''], [token = '', leaseMs, process = '', notAfter]) {
    if (isLate(data, notAfter)) return ['LATE', data.now, '', 0]
    return data.locks.acquire(record, token, Number(leaseMs), process)
  },
  'release-lock': (data, [record = ''], args) => data.locks.release(record, args),
  'leave-queue'(data, [record = ''], [process = '']) {
    data.locks.leave(record, process)
    return 'LEFT'
  },
  'begin-record': begin,
  'finish-record': finish,
  async 'keep-step'(data, [record = ''], args, raw) {
    const value = raw[3] as Uint8Array
    const kept = await data.store.idempotency.keepStep(grantOf(record, args), args[2] ?? '', value)
    return kept === 'kept' ? 'KEPT' : 'STALE'
  },
}

function isLate(data: ServerData, notAfter: string | undefined): boolean {
  return Number(notAfter) > 0 && data.now > Number(notAfter)
}

function grantOf(key: string, [token = '', fence = '']: readonly string[]): Grant {
  return { key, token, fence }
}

function lifetimesOf(args: readonly string[]): Lifetimes {
  const [, , , fresh, swr, sie, keep, physical] = args.map(Number) as number[]
  return {
    freshMs: fresh ?? 0,
    staleWhileRevalidateMs: swr ?? 0,
    staleIfErrorMs: sie ?? 0,
    keepMs: keep ?? 0,
    physicalMs: physical ?? 0,
  }
}

async function commit(
  data: ServerData,
  [record = '', group = record]: readonly string[],
  args: readonly string[],
  raw: readonly unknown[],
): Promise<string> {
  const grant = grantOf(record, args)
  if (isVoid(data, record, group, grant)) return 'FENCED'
  data.names.set(record, args[8] ?? '')
  const frame = raw[2] as Uint8Array
  const told = toldOf(data.now, args, frame)
  if (told !== undefined) data.telling.set(record, told)
  const reply = await data.store.commit(grant, frame, lifetimesOf(args))
  data.telling.delete(record)
  if (reply === 'fenced') return 'FENCED'
  data.fields.committed(record, grant.fence, frame, lifetimesOf(args))
  return 'COMMITTED'
}

/** A purge of the group came after the grant. */
function isVoid({ fields }: ServerData, record: string, group: string, { fence }: Grant): boolean {
  const { purged, softened } = fields.stampsOf(group)
  return group !== record && Number(fence) <= Math.max(purged, softened)
}

async function lookup(
  data: ServerData,
  [record = '', group = record]: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  const [token = '', lease, process = '', known = '', outdated = NONE, soft, early, notAfter] = args
  if (isLate(data, notAfter)) return ['LATE', data.now]
  const leaseMs = Number(lease)
  const request: LookupRequest = {
    token,
    leaseMs,
    ...(known !== '' && { knownFence: known }),
    ...(outdated !== NONE && { outdated: { fence: outdated, soft: soft === '1' } }),
    ...(early === '1' && { early: true }),
  }
  await data.follow(record, group)
  const reply = await data.store.lookup(record, request)
  const { fields } = data
  if (request.outdated) fields.outdated(record, request.outdated.fence, request.outdated.soft)
  if ('grant' in reply && reply.grant !== undefined) fields.granted(record, reply.grant.fence)
  const isToWait = reply.status === 'busy' || (reply.status === 'stale' && !reply.grant)
  // Whoever has an answer is not told what was made.
  const isTold = reply.status === 'busy' && args[9] === '1'
  if (isToWait && leaseMs > 0) data.wait(record, process, isTold ? token : '')
  if (reply.status !== 'busy') return lookupRow(data.now, reply)
  const forMs = Math.floor(reply.busyForMs)
  return ['BUSY', data.now, '', forMs, ...(leaseMs > 0 ? [fields.newestOf(record)] : [])]
}

function lookupRow(now: number, reply: LookupReply): unknown[] {
  const fence = 'grant' in reply ? (reply.grant?.fence ?? '') : ''
  const forMs = 'busyForMs' in reply ? reply.busyForMs : 'forMs' in reply ? reply.forMs : 0
  const failure = reply.status === 'failed' ? JSON.stringify(reply.failure) : ''
  const stored = 'stored' in reply ? reply.stored : undefined
  const head = [reply.status.toUpperCase(), now, fence, Math.floor(forMs)]
  return [...head, ...storedRow(stored), failure, stored?.frame ?? null, stored?.patch ?? null]
}

function storedRow(stored: StoredFrame | undefined): unknown[] {
  if (stored === undefined) return ['', 0, 0, 0, 0, 0]
  const { fence, ageMs, freshForMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs } = stored
  return [
    fence,
    Math.floor(ageMs),
    Math.floor(freshForMs),
    staleWhileRevalidateMs,
    staleIfErrorMs,
    keepMs,
  ]
}

async function extend(
  data: ServerData,
  [record = '', group = record]: readonly string[],
  args: readonly string[],
  raw: readonly unknown[],
): Promise<string> {
  const grant = grantOf(record, args)
  if (isVoid(data, record, group, grant)) return 'FENCED'
  const [, to = '', , fresh, swr, sie, keep, physical, key = '', , channel = '', process] = args
  data.names.set(record, key)
  const before = await data.store.lookup(record, { token: '', leaseMs: 0 })
  const from = 'stored' in before ? before.stored?.fence : undefined
  const patch = raw[2] as Uint8Array
  const reply = await data.store.extend(grant, patch, lifetimesOf(args))
  if (reply !== 'committed') return 'FENCED'
  data.fields.extended(record, to, patch, lifetimesOf(args))
  if (from !== undefined && from !== to) {
    const times = [data.now, fresh, swr, sie, keep, physical, Buffer.byteLength(key)]
    const head = Buffer.from(`x ${process} ${from} ${to} ${times.join(' ')}\n${key}`)
    data.publish(channel, Buffer.concat([head, patch]))
  }
  return 'EXTENDED'
}

async function begin(
  data: ServerData,
  [record = '']: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  const [token = '', exact = '', canonical = '', leaseMs, retentionMs, expired, most, keep] = args
  const [process = '', notAfter] = args.slice(8)
  if (isLate(data, notAfter)) return ['LATE', data.now]
  const reply = await data.store.idempotency.begin(record, {
    token,
    fingerprints: { exact, canonical },
    leaseMs: Number(leaseMs),
    retentionMs: Number(retentionMs),
    onLeaseExpired: expired === 'uncertain' ? 'uncertain' : 'takeover',
    maxAttempts: Number(most),
    keepUncertainMs: Number(keep),
    wait: process !== '',
  })
  const head = [reply.status.toUpperCase(), data.now]
  if (reply.status === 'busy' && process !== '') data.wait(record, process)
  if (reply.status === 'busy') return [...head, Math.floor(reply.forMs)]
  if (reply.status === 'completed') return [...head, Math.floor(reply.forMs), reply.frame]
  if (reply.status !== 'begun') return head
  const { grant, attempt, isRecovery, steps } = reply
  return [...head, grant.fence, attempt, isRecovery ? 1 : 0, ...[...steps].flat()]
}

async function finish(
  data: ServerData,
  [record = '']: readonly string[],
  args: readonly string[],
  raw: readonly unknown[],
): Promise<unknown> {
  const [, , as, keep, , exact = '', canonical = '', key = '', , notAfter] = args
  if (isLate(data, notAfter)) return ['LATE', data.now]
  data.names.set(record, key)
  const keepMs = Number(keep)
  const grant = grantOf(record, args)
  const end =
    as === 'completed'
      ? ({ as, frame: raw[4] as Uint8Array, keepMs } as const)
      : ({ as: as === 'released' ? 'released' : 'uncertain', keepMs } as const)
  const reply = await data.store.idempotency.finish(grant, end, { exact, canonical })
  return [reply.toUpperCase(), data.now]
}
