// The scripts of lua/ by their names, on the data of the simulated server. Arguments and replies
// are those that packages/redis sends and parses.

import type { Grant } from '@stampede/core/store'
import type { ServerData } from './server-data.ts'
import { toldOf } from './server-records.ts'

type Script = (
  data: ServerData,
  keys: readonly string[],
  args: readonly string[],
  raw: readonly unknown[],
) => unknown

export const SCRIPTS: Readonly<Record<string, Script>> = {
  'lookup-or-lease': ({ records }, [record = '', group = record], args) =>
    records.lookup(record, group, args),
  commit({ records, now }, [record = '', group = record], args, raw) {
    const frame = raw[2] as Uint8Array
    const telling = { key: args[6] ?? '', made: toldOf(now - Number(args[9]), args, frame) }
    return [records.commit(record, group, args, frame, telling), now]
  },
  'end-lease': ({ records }, [record = ''], args) =>
    records.endLease(record, args, { key: args[5] ?? '' }),
  async renew(data, [record = '', group = record], args) {
    const [token = '', fence = '', leaseMs] = args
    if (record.includes('{=l:')) {
      return data.locks.renew(record, token, fence, Number(leaseMs)) ? 'RENEWED' : 'LOST'
    }
    if (!record.includes('{=i:')) return data.records.renew(record, group, args)
    const [ours] = await data.idempotency.renew([grantOf(record, args)], Number(leaseMs))
    return ours === true ? 'RENEWED' : 'LOST'
  },
  purge: ({ records }, [record = ''], [soft, key = '']) =>
    records.purge(record, soft === '1', { key }),
  'append-purge': (
    data,
    _keys,
    [event = '', known = '', _channel, _events, _marks, _age, random = ''],
  ) => data.purges.append(event, known, random),
  'read-purges': (data, _keys, [known = '', run = '', most, _bytes, random = '']) =>
    data.purges.read(known, run, Number(most), random),
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
    const kept = await data.idempotency.keepStep(grantOf(record, args), args[2] ?? '', value)
    return kept === 'kept' ? 'KEPT' : 'STALE'
  },
}

function isLate(data: ServerData, notAfter: string | undefined): boolean {
  return Number(notAfter) > 0 && data.now > Number(notAfter)
}

function grantOf(key: string, [token = '', fence = '']: readonly string[]): Grant {
  return { key, token, fence }
}

async function begin(
  data: ServerData,
  [record = '']: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  const [token = '', exact = '', canonical = '', leaseMs, retentionMs, expired, most, keep] = args
  const [process = '', notAfter] = args.slice(8)
  if (isLate(data, notAfter)) return ['LATE', data.now]
  const reply = await data.idempotency.begin(record, {
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
  const reply = await data.idempotency.finish(grant, end, { exact, canonical })
  return [reply.toUpperCase(), data.now]
}
