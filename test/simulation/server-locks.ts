// The locks of the simulated server: lua/*-lock-1.lua on a Map, with a queue of processes. The
// memory store serves one process, and so has no queue.

export type LockRow = readonly [
  status: string,
  now: number,
  fence: string,
  forMs: number,
  token?: string,
]

interface Place {
  readonly token: string
  readonly leaseMs: number
  readonly process: string
}

export interface ServerLock {
  fence: number
  token: string
  until: number
  /** When `until` was set. */
  set: number
  queue: Place[]
}

/** Sends a grant to a process, and returns the number of receivers. */
export type Announce = (process: string, message: string) => number

export class ServerLocks {
  readonly all = new Map<string, ServerLock>()
  readonly #micros: () => number
  readonly #announce: Announce

  constructor(micros: () => number, announce: Announce) {
    this.#micros = micros
    this.#announce = announce
  }

  get #now(): number {
    return Math.floor(this.#micros() / 1000)
  }

  acquire(key: string, token: string, leaseMs: number, process: string): LockRow {
    const now = this.#now
    const lock = this.all.get(key) ?? newLock()
    this.all.set(key, lock)
    if (now < lock.set) extend(lock, now, lock.until - lock.set)
    const isHeld = lock.token !== '' && now < lock.until
    if (isHeld && lock.token === token)
      return ['GRANTED', now, String(lock.fence), lock.until - now]
    if (isHeld || lock.queue.length > 0) {
      if (process !== '') queueUp(lock, { token, leaseMs, process })
      if (isHeld) return ['BUSY', now, String(lock.fence), lock.until - now]
      return ['OVERDUE', now, String(lock.fence), 0, lock.token]
    }
    this.#grant(lock, token, leaseMs)
    return ['GRANTED', now, String(lock.fence), leaseMs]
  }

  renew(key: string, token: string, fence: string, leaseMs: number): boolean {
    const lock = this.all.get(key)
    if (lock === undefined || lock.token !== token || String(lock.fence) !== fence) return false
    extend(lock, this.#now, leaseMs)
    return true
  }

  release(key: string, args: readonly string[]): LockRow {
    const [token = '', fence, overdue, name = '', , claimMs, , process = '', next = '', leaseMs] =
      args
    const now = this.#now
    const lock = this.all.get(key) ?? newLock()
    const isOurs = lock.token === token && (fence === '*' || this.#shown(key) === fence)
    if (!isOurs || (overdue === '1' && token !== '' && now < lock.until))
      return ['LOST', now, '', 0]
    lock.token = ''
    if (process !== '') queueUp(lock, { token: next, leaseMs: Number(leaseMs), process })
    for (let head = lock.queue.shift(); head !== undefined; head = lock.queue.shift()) {
      const forMs = Math.min(head.leaseMs, Number(claimMs))
      this.#grant(lock, head.token, forMs)
      if (head.process === process) return ['RELEASED', now, String(lock.fence), forMs]
      const message = `${head.token} ${lock.fence} ${now + forMs} ${now} ${name}`
      if (this.#announce(head.process, message) > 0) return ['RELEASED', now, '', forMs]
      lock.token = ''
    }
    return ['RELEASED', now, '', 0]
  }

  leave(key: string, process: string): void {
    const lock = this.all.get(key)
    if (lock !== undefined) lock.queue = lock.queue.filter((each) => each.process !== process)
  }

  #shown(key: string): string {
    const lock = this.all.get(key)
    return lock === undefined || lock.fence === 0 ? '' : String(lock.fence)
  }

  #grant(lock: ServerLock, token: string, leaseMs: number): void {
    lock.fence = Math.max(lock.fence + 1, this.#micros())
    lock.token = token
    extend(lock, this.#now, leaseMs)
  }
}

function newLock(): ServerLock {
  return { fence: 0, token: '', until: 0, set: 0, queue: [] }
}

function extend(lock: ServerLock, now: number, leaseMs: number): void {
  lock.until = now + leaseMs
  lock.set = now
}

/** A process has one place in the queue, under its latest token. */
function queueUp(lock: ServerLock, place: Place): void {
  const known = lock.queue.findIndex(({ process }) => process === place.process)
  if (known === -1) lock.queue.push(place)
  else lock.queue[known] = place
}
