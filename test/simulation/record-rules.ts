// Rules about the records of the cache, as the server sees them. There is one lease at a time,
// fences rise, and each fence commits once. No commit follows a purge, and a lease that is over is
// not renewed. Every registered waiter gets a wake-up, and no marker lasts longer than it was set
// for.

import { names } from '../../packages/redis/src/protocol/keys.ts'
import { type CommitTerms, commitTerms, lookupValues } from './entry-scripts.ts'
import type { Keyspace, Value } from './keyspace.ts'
import type { Message, Seen } from './sim-redis.ts'
import type { Judge } from './violation.ts'

interface Record {
  /**
   * The record after the last command. A key that expired, or was evicted or purged, starts again.
   */
  known: Value | undefined
  /**
   * The key started again after the clock was set back, so a fence may occur twice
   * (docs/decisions/0009).
   */
  isReborn: boolean
  token: string
  fence: number
  /** Start and end of its lease, by the server's clock. */
  set: number
  until: number
  /** The lease has not ended, and no purge came since. */
  isOpen: boolean
  accepted: number
  acceptedBy: string
  /** Grants up to this one were purged. */
  voided: number
  /** The number of purges of its group at the time of the grant. */
  purges: number
  /** The longest times for which a lease, a failure and a pass were set. */
  leaseMs: number
  retryMs: number
  passMs: number
  /** Until then a stale entry is served without a lease, because a value was skipped. */
  skippedUntil: number
  /** Whether a response could not be shared since the last commit or purge. */
  hasPassed: boolean
  readonly waits: Set<string>
}

/** Callbacks into the simulated world. */
interface Context {
  readonly onGrant: (record: string, fence: string) => void
  /** After the clock was set back, a key that starts again may get an earlier fence. */
  readonly steppedBack: () => boolean
}

const { wakePrefix } = names('stampede')
const RULED = new Set(['lookup-or-lease', 'commit', 'end-lease', 'renew-entry', 'purge'])

export class RecordRules {
  readonly #judge: Judge
  readonly #context: Context
  #records = new Map<string, Record>()
  /** The number of purges, by group. */
  #purges = new Map<string, number>()
  /** The greatest fence of each key before data was lost. */
  #highest = new Map<string, number>()
  /** By record and fence, on the server's clock: until when the entry is fresh without a purge. */
  #freshUntil = new Map<string, number>()

  constructor(judge: Judge, context: Context) {
    this.#judge = judge
    this.#context = context
  }

  /** Data was lost. */
  forget(): void {
    this.#freshUntil = new Map()
    for (const [key, { fence }] of this.#records) {
      this.#highest.set(key, Math.max(fence, this.#highest.get(key) ?? 0))
    }
    this.#records = new Map()
    this.#purges = new Map()
  }

  /** Forgets the fences from before the loss. */
  forgetFences(): void {
    this.#highest.clear()
  }

  saw({ command, reply, found, published }: Seen, data: Keyspace, isAgain: boolean): void {
    const { name, keys, args } = command
    const [key = '', group = key] = keys
    if (!RULED.has(name)) return
    const record = this.#record(key, name === 'purge' ? found : undefined, data)
    if (name === 'lookup-or-lease') {
      this.#onLookup(key, group, record, args, lookupValues(reply), data.now, isAgain)
    } else if (name === 'commit') {
      if ((reply as unknown[])[0] !== 'COMMITTED') return
      const terms = commitTerms(args)
      const entry = `${key} ${terms.fence}`
      if (!this.#freshUntil.has(entry)) this.#freshUntil.set(entry, data.now + terms.freshMs)
      this.#onCommit(key, group, record, terms)
    } else if (name === 'end-lease' && (reply === 'ENDED' || reply === 'FIRST')) {
      record.isOpen = false
      if (Number(args[2]) > 0) this.#onPass(key, record, args, String(reply), data.now)
      else if (Number(args[3]) > 0) record.retryMs = Number(args[3])
    } else if (name === 'renew-entry' && reply === 'RENEWED') {
      this.#onRenew(key, record, args, data.now)
      return
    } else if (name === 'purge') {
      record.voided = record.fence
      record.isOpen = false
      record.hasPassed = false
      record.skippedUntil = 0
      this.#purges.set(key, (this.#purges.get(key) ?? 0) + 1)
    } else return
    if (name === 'lookup-or-lease') return
    if (!isAgain) this.#checkWoken(key, name, record, published)
    record.waits.clear()
  }

  /** Undefined: no such commit is known. */
  freshUntil(key: string, fence: string): number | undefined {
    return this.#freshUntil.get(`${key} ${fence}`)
  }

  /** The lease with this token is the record's, and has not ended. */
  isHeld(key: string, token: string, data: Keyspace): boolean {
    const record = this.#records.get(key)
    if (record === undefined || record.known !== data.get(key)) return false
    return record.isOpen && record.token === token && data.now < record.until
  }

  #checkWoken(key: string, name: string, { waits }: Record, published: readonly Message[]): void {
    for (const process of waits) {
      if (published.some(({ channel }) => channel === wakePrefix + process)) continue
      this.#judge.fail(
        'woken',
        `${name} ended a lease that ${process} waits for, without a wake-up`,
        key,
      )
    }
  }

  #onLookup(
    key: string,
    group: string,
    record: Record,
    [token = '', leaseMs, , process = '']: readonly string[],
    [status, , granted, forMs, , ageMs]: readonly string[],
    now: number,
    isAgain: boolean,
  ): void {
    this.#checkLength(key, record, String(status), Number(forMs))
    if (Number(ageMs) < 0)
      this.#judge.fail('not from the future', `an entry is ${ageMs} ms old`, key)
    if (granted === undefined || granted === '0') {
      const isHeld = status === 'BUSY' || (status === 'STALE' && now >= record.skippedUntil)
      if (Number(forMs) > 0 && isHeld) record.waits.add(process)
      return
    }
    const fence = Number(granted)
    if (record.isOpen && record.token === token && record.fence === fence) return
    // A lease set in the server's future is invalid, because the clock was set back.
    const isPurged = record.purges < (this.#purges.get(group) ?? 0)
    if (record.isOpen && !isPurged && record.set <= now && now < record.until) {
      this.#judge.fail('one lease', `fence ${fence} was granted while ${record.fence} is held`, key)
    }
    const before = Math.max(record.fence, isAgain ? 0 : (this.#highest.get(key) ?? 0))
    if (fence <= before) {
      this.#judge.fail('rising fences', `${fence} was granted after ${before}`, key)
    }
    const given = { set: now, until: now + Number(leaseMs), leaseMs: Number(leaseMs) }
    const purges = this.#purges.get(group) ?? 0
    Object.assign(record, { token, fence, ...given, purges, isOpen: true })
    this.#context.onGrant(key, String(fence))
  }

  /** One response that cannot be shared does not make requests run in parallel. */
  #onPass(key: string, record: Record, args: readonly unknown[], reply: string, now: number): void {
    const isMarked = reply === 'ENDED'
    if (String(args[7]) === '3') {
      record.passMs = Number(args[2])
      record.skippedUntil = now + record.passMs
      return
    }
    if (isMarked && String(args[7]) !== '0' && !record.hasPassed) {
      this.#judge.fail('hit-for-miss after two', 'one response marked the key', key)
    }
    record.hasPassed = true
    if (isMarked) record.passMs = Number(args[2])
  }

  /** A reply BUSY or FAILED never names more time than was set. */
  #checkLength(key: string, record: Record, status: string, forMs: number): void {
    const { leaseMs, retryMs, passMs } = record
    const staleMs = Math.max(leaseMs, passMs)
    const most = { BUSY: leaseMs, STALE: staleMs, FAILED: retryMs, PASS: passMs }[status] ?? forMs
    if (!(forMs > most)) return
    const detail = `${status} for ${forMs} ms, and it was set for ${most}`
    this.#judge.fail('no longer than set', detail, key)
  }

  #onCommit(key: string, group: string, record: Record, { token, fence: text }: CommitTerms): void {
    const fence = Number(text)
    if (fence === record.accepted) {
      if (token === record.acceptedBy || record.isReborn) return
      this.#judge.fail('one commit a fence', `${fence} was accepted from two`, key)
    }
    const wasPurged = record.purges < (this.#purges.get(group) ?? 0) && group !== key
    if (fence <= record.voided || wasPurged) {
      this.#judge.fail('no commit after a purge', `${fence} was accepted after a purge`, key)
    }
    if (fence < record.accepted) {
      this.#judge.fail('rising commits', `${fence} was accepted after ${record.accepted}`, key)
    }
    if (fence !== record.fence || token !== record.token || !record.isOpen) {
      this.#judge.fail('newest grant', `${fence} was accepted, the newest is ${record.fence}`, key)
    }
    Object.assign(record, { accepted: fence, acceptedBy: token, isOpen: false, hasPassed: false })
    record.skippedUntil = 0
  }

  #onRenew(key: string, record: Record, args: readonly string[], now: number): void {
    const [token, fence, leaseMs] = args
    if (!record.isOpen || `${record.fence}` !== fence || record.token !== token) {
      this.#judge.fail('no renewal of what is lost', `${fence} was renewed after it was lost`, key)
    }
    Object.assign(record, { set: now, until: now + Number(leaseMs), leaseMs: Number(leaseMs) })
  }

  /** `purged`: what the purge found, and whose waiters it has to wake. */
  #record(key: string, purged: Value | undefined, data: Keyspace): Record {
    const known = data.get(key)
    let record = this.#records.get(key)
    if (record === undefined) {
      record = newRecord()
      this.#records.set(key, record)
    } else if (record.known !== known) {
      // Waiters of that record are no longer known. They look up again when the lease ends.
      if (purged === undefined || purged !== record.known) record.waits.clear()
      record.isOpen = false
      if (this.#context.steppedBack()) {
        Object.assign(record, { fence: 0, accepted: 0, voided: 0, isReborn: true })
      }
    }
    record.known = known
    return record
  }
}

function newRecord(): Record {
  return {
    known: undefined,
    isReborn: false,
    token: '',
    fence: 0,
    set: 0,
    until: 0,
    isOpen: false,
    accepted: 0,
    acceptedBy: '',
    voided: 0,
    purges: 0,
    leaseMs: Number.POSITIVE_INFINITY,
    retryMs: Number.POSITIVE_INFINITY,
    passMs: Number.POSITIVE_INFINITY,
    skippedUntil: 0,
    hasPassed: false,
    waits: new Set(),
  }
}
