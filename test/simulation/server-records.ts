// The records of the cache on the simulated server: the scripts of lua/ on a Map, line by line. A
// record expires by the server's own clock, as a key of Redis does.

/** A moment, and when it was set. Before that time the moment is invalid. */
interface Moment {
  readonly at: number
  readonly set: number
}

interface Life {
  /** The fence of the commit. */
  readonly fence: number
  readonly made: number
  fresh: number
  readonly swr: number
  readonly sie: number
  readonly keep: number
}

export interface ServerRecord {
  fence: number
  token: string | undefined
  until: Moment | undefined
  pass: Moment | undefined
  retry: Moment | undefined
  failure: string
  life: Life | undefined
  frame: Uint8Array | undefined
  /** In a group's record: its life, and the moment of its last soft purge. */
  variants: string | undefined
  /** In a variant's record: `variants` of its group at the time of the lease. */
  group: string | undefined
  /** Waiting processes, with the token of each that wants the entry delivered. */
  waiters: Map<string, string>
  expiresAt: number
}

type Reply = readonly unknown[]

export interface Telling {
  readonly key: string
  /** The message with the entry for waiters, after their token. */
  readonly made?: Buffer | undefined
}

export class ServerRecords {
  /** Processes woken by the last command. */
  woken: string[] = []
  /** The record that the last purge found. */
  purged: ServerRecord | undefined
  /** By record and fence, on the server's clock: until when the entry is fresh without a purge. */
  readonly freshUntil = new Map<string, number>()
  /** On a replica, or a master that is cut off: the error of each write. */
  refusal: Error | undefined
  readonly #all = new Map<string, ServerRecord>()
  readonly #now: () => number
  readonly #micros: () => number
  readonly #wake: (process: string, word: Buffer) => void

  constructor(
    now: () => number,
    micros: () => number,
    wake: (process: string, word: Buffer) => void,
  ) {
    this.#now = now
    this.#micros = micros
    this.#wake = wake
  }

  /** Undefined: there is no record, or it expired. */
  get(key: string): ServerRecord | undefined {
    const known = this.#all.get(key)
    if (known === undefined || this.#now() < known.expiresAt) return known
    this.#all.delete(key)
    return undefined
  }

  get groups(): string[] {
    return [...this.#all].flatMap(([key, { variants }]) => (variants === undefined ? [] : [key]))
  }

  get keys(): string[] {
    return [...this.#all.keys()]
  }

  evict(key: string): void {
    this.#all.delete(key)
  }

  lookup(key: string, group: string, args: readonly string[]): Reply {
    const [token = '', lease, process = '', notAfter, keepMs, isTold] = args
    const [known = '', outdated = '', soft, early, like = ''] = args.slice(6)
    const leaseMs = Number(lease)
    const now = this.#now()
    if (Number(notAfter) > 0 && now > Number(notAfter)) return ['LATE', now]
    let record = this.get(key)
    const newest = record?.fence ?? 0
    const variants = group === key ? undefined : this.get(group)?.variants
    const isCurrent = group === key || (variants !== undefined && variants === record?.group)
    const [groupLife, softenedAt] = partsOf(variants)
    const isGone = !isCurrent && (groupLife ?? 0) !== partsOf(record?.group)[0]
    if (isGone && record !== undefined) {
      this.#write()
      this.#all.delete(key)
      record = undefined
    }
    const ms = (moment: Moment | undefined) =>
      moment !== undefined && now >= moment.set ? moment.at : 0
    const [leaseUntil, pass, retry] = [ms(record?.until), ms(record?.pass), ms(record?.retry)]
    const failure = record?.failure ?? ''
    let life = record?.life
    let fresh = life?.fresh ?? 0
    const isOutdated = life !== undefined && text(life.fence) === outdated
    const softened = isOutdated ? now : isCurrent ? undefined : Math.min(now, softenedAt)
    if (
      record !== undefined &&
      life !== undefined &&
      (now < life.made || (isOutdated && soft !== '1'))
    ) {
      this.#write()
      dropEntry(record)
      life = undefined
    } else if (life !== undefined && softened !== undefined && softened < fresh) {
      fresh = softened
      if (this.refusal === undefined) life.fresh = softened
    }
    const reply = (status: string, grant: string, forMs: number): Reply => {
      const lasts = life && Math.max(life.swr, life.sie, status === 'LEASED' ? life.keep : 0)
      if (life === undefined || lasts === undefined || now >= fresh + lasts) {
        return [status, now, grant, forMs, '', failure]
      }
      const { made, swr, sie, keep } = life
      const entry = text(life.fence)
      const frame = known === entry ? null : (record?.frame ?? Buffer.alloc(0))
      const head = [status, now, grant, forMs, entry, failure]
      return [...head, now - made, fresh - now, swr, sie, keep, frame]
    }
    const held = record?.token !== undefined && now < leaseUntil && isCurrent
    const busy = held && record?.token !== token
    const isFresh = life !== undefined && now < fresh
    if (isFresh && (early !== '1' || leaseMs === 0 || busy || now < retry))
      return reply('FRESH', '', 0)
    if (now < pass && (busy || leaseMs === 0)) return ['PASS', now, '', pass - now]
    const failedLike = like !== '' ? (/"like":"([\w-]+)"/.exec(failure)?.[1] ?? like) : like
    if (now >= pass && now < retry && failure !== '' && failedLike === like) {
      return reply('FAILED', '', retry - now)
    }
    const usable = life !== undefined && now < fresh + life.swr
    if (leaseMs === 0) return usable ? reply('STALE', '', 0) : ['BUSY', now, '', 0]
    this.#write()
    if (busy && record !== undefined) {
      record.waiters.set(process, !usable && isTold === '1' ? token : '')
      if (usable) return reply('STALE', '', leaseUntil - now)
      return ['BUSY', now, '', leaseUntil - now, text(newest)]
    }
    const fence = held ? newest : Math.max(this.#micros(), newest + 1)
    const joined = group === key ? undefined : (variants ?? `${token} ${text(fence)} 0`)
    const times = { leaseMs, keepMs: Number(keepMs), now, pass }
    if (!held) this.#grant(key, group, { token, fence, joined, ...times })
    if (now < pass) return ['PASS', now, text(fence), pass - now]
    return reply(isFresh ? 'FRESH' : usable ? 'STALE' : 'LEASED', text(fence), 0)
  }

  commit(
    key: string,
    group: string,
    args: readonly string[],
    frame: Uint8Array,
    telling: Telling,
  ): string {
    this.#write()
    const [token, fenceText, , fresh, windows = '', physical] = args
    const [notAfter, waitedMs] = args.slice(8)
    const [swr = 0, sie = 0, keep = 0] = windows.split(' ').map(Number)
    const fence = Number(fenceText)
    const record = this.get(key)
    if (record === undefined || record.fence !== fence) return 'FENCED'
    if (group !== key && !this.#isOfGroup(record, group)) return 'FENCED'
    if (record.token !== token) return record.life?.fence === fence ? 'COMMITTED' : 'FENCED'
    const now = this.#now()
    if (Number(notAfter) > 0 && now > Number(notAfter)) return 'LATE'
    const made = now - Number(waitedMs)
    record.life = {
      fence,
      made,
      fresh: made + Number(fresh),
      ...{ swr, sie, keep },
    }
    record.frame = frame
    this.freshUntil.set(`${key} ${fenceText}`, record.life.fresh)
    this.#endWritten(key, group, record, Number(physical))
    this.#wakeAll(record, telling)
    return 'COMMITTED'
  }

  renew(key: string, group: string, [token, fence, leaseMs, keepMs]: readonly string[]): string {
    this.#write()
    const record = this.get(key)
    if (record === undefined || text(record.fence) !== fence || record.token !== token)
      return 'LOST'
    const now = this.#now()
    this.#lengthen(key, Number(leaseMs) + Number(keepMs))
    if (group !== key) this.#lengthen(group, Number(leaseMs) + Number(keepMs))
    record.until = { at: now + Number(leaseMs), set: now }
    return 'RENEWED'
  }

  endLease(key: string, args: readonly string[], telling: Telling): string {
    this.#write()
    const [token, fence, pass, backoff, failure = '', , , isAwaited] = args
    const record = this.get(key)
    if (record === undefined || record.token !== token) return 'FENCED'
    if (fence !== '*' && text(record.fence) !== fence) return 'FENCED'
    endLease(record)
    const [passMs, backoffMs, now] = [Number(pass), Number(backoff), this.#now()]
    if (passMs > 0) {
      dropEntry(record)
      record.pass = { at: now + passMs, set: now }
    } else if (backoffMs > 0 && (isAwaited === '1' || record.waiters.size > 0)) {
      record.retry = { at: now + backoffMs, set: now }
      record.failure = failure
    }
    this.#lengthen(key, Math.max(passMs, backoffMs) + 1_000)
    this.#wakeAll(record, telling)
    return 'ENDED'
  }

  purge(key: string, soft: boolean, telling: Telling): string {
    this.#write()
    const record = this.get(key)
    this.purged = record
    if (record === undefined) return 'PURGED'
    const { fence, variants, waiters } = record
    const now = this.#now()
    if (soft && (fence > 0 || variants !== undefined)) {
      if (record.life !== undefined) record.life.fresh = Math.min(record.life.fresh, now)
      if (variants !== undefined) {
        const [life, softenedAt] = partsOf(variants)
        record.variants = `${life ?? variants} ${text(Math.max(now, softenedAt + 1))}`
      }
      record.fence = Math.max(this.#micros(), fence + 1)
      endLease(record)
    } else if (!soft) {
      this.#all.delete(key)
    }
    this.#wakeAll({ ...record, waiters }, telling)
    return 'PURGED'
  }

  /** HMGET: null for a missing field. */
  read(key: string, names: readonly string[]): Array<Buffer | null> {
    const record = this.get(key)
    const values: Record<string, Uint8Array | string | undefined> = {
      life: record?.life && lifeOf(record.life),
      frame: record?.frame,
      variants: record?.variants,
      group: record?.group,
    }
    return names.map((name) => {
      const value = values[name]
      if (value === undefined) return null
      return typeof value === 'string' ? Buffer.from(value) : Buffer.from(value)
    })
  }

  #write(): void {
    if (this.refusal !== undefined) throw this.refusal
  }

  #grant(
    key: string,
    group: string,
    given: Record<'fence' | 'leaseMs' | 'keepMs' | 'now' | 'pass', number> & {
      token: string
      joined: string | undefined
    },
  ): void {
    const { token, fence, joined, leaseMs, keepMs, now, pass } = given
    const record = this.get(key) ?? newRecord()
    this.#all.set(key, record)
    record.token = token
    record.fence = fence
    record.group = joined
    record.until = { at: now + leaseMs, set: now }
    record.retry = undefined
    record.failure = ''
    if (now >= pass) record.pass = undefined
    if (group !== key) {
      const home = this.get(group) ?? newRecord()
      this.#all.set(group, home)
      home.variants = joined
      this.#lengthen(group, leaseMs + keepMs)
    }
    this.#lengthen(key, leaseMs + keepMs)
  }

  /** No purge of the group came after the grant, and none was lost with its record. */
  #isOfGroup(record: ServerRecord, group: string): boolean {
    const variants = this.get(group)?.variants
    return variants !== undefined && variants === record.group
  }

  /** A record with variants lives as long as the longest of them. */
  #endWritten(key: string, group: string, record: ServerRecord, physicalMs: number): void {
    endLease(record)
    record.pass = undefined
    if (record.variants !== undefined) this.#lengthen(key, physicalMs)
    else record.expiresAt = this.#now() + physicalMs
    if (group !== key) this.#lengthen(group, physicalMs)
  }

  #lengthen(key: string, ms: number): void {
    const record = this.get(key)
    if (record === undefined) return
    const until = this.#now() + ms
    if (record.expiresAt === Number.POSITIVE_INFINITY || record.expiresAt < until)
      record.expiresAt = until
  }

  #wakeAll({ waiters }: ServerRecord, { key, made }: Telling): void {
    for (const [process, name] of [...waiters]) {
      waiters.delete(process)
      const isTold = made !== undefined && name !== ''
      this.#wake(
        process,
        isTold ? Buffer.concat([Buffer.from(`\0${name}`), made]) : Buffer.from(key),
      )
      this.woken.push(process)
    }
  }
}

function newRecord(): ServerRecord {
  return {
    fence: 0,
    token: undefined,
    until: undefined,
    pass: undefined,
    retry: undefined,
    failure: '',
    life: undefined,
    frame: undefined,
    variants: undefined,
    group: undefined,
    waiters: new Map(),
    expiresAt: Number.POSITIVE_INFINITY,
  }
}

/** The life that `variants` names, and the moment of its last soft purge. */
function partsOf(variants: string | undefined): [life: string | undefined, softenedAt: number] {
  const [, life, softenedAt] = /^(.+) (\d+)$/.exec(variants ?? '') ?? []
  return [life, Number(softenedAt ?? 0)]
}

function endLease(record: ServerRecord): void {
  Object.assign(record, { token: undefined, until: undefined, retry: undefined, failure: '' })
}

function dropEntry(record: ServerRecord): void {
  Object.assign(record, { life: undefined, frame: undefined })
}

function lifeOf({ fence, made, fresh, swr, sie, keep }: Life): string {
  return [fence, made, fresh, swr, sie, keep].map(text).join(' ')
}

/** Lua's `%.0f`. */
function text(number: number): string {
  return number.toFixed(0)
}

/**
 * The message of lua/commit-2.lua for waiters, without the token of each. Undefined: it is too
 * long.
 */
export function toldOf(
  now: number,
  args: readonly string[],
  frame: Uint8Array,
): Buffer | undefined {
  const [, fence, , fresh, windows, , key = ''] = args
  if (frame.byteLength > 16 * 1024) return undefined
  const head = ['', fence, now, fresh, windows, Buffer.byteLength(key)].join(' ')
  return Buffer.concat([Buffer.from(`${head}\n${key}`), frame])
}
