// Several processes on one RecordStore. A network delays, repeats, reorders and loses the messages
// between them, as a test says. The purge log is read every two seconds, as with Redis.

import type { Clock, Timer } from '../ports/clock.ts'
import { CONFIRMED_FOR_MS, type StampedeStore, type StoreHooks } from '../ports/store.ts'
import { sharedIdempotency } from './idempotency-doubles.ts'
import { RecordStore } from './record-store.ts'

type Hint = (hooks: StoreHooks) => void

/** The delays of one message to one process, one for each copy. An empty list loses the message. */
export type Fate = () => readonly number[]

interface Logged {
  readonly position: number
  readonly at: number
  readonly tell: (hooks: StoreHooks, agoMs: number) => void
}

const HEARTBEAT_MS = 2_000

export class PurgeNetwork {
  readonly #clock: Clock
  readonly #fate: Fate
  readonly #latencyMs: () => number
  readonly #inner = new RecordStore()
  readonly #idempotency = sharedIdempotency(this.#inner.idempotency)
  readonly #members: NetworkMember[] = []
  readonly #log: Logged[] = []

  /** `latencyMs`: the delay of each direction of a command. */
  constructor(clock: Clock, fate: Fate, latencyMs: () => number) {
    this.#clock = clock
    this.#fate = fate
    this.#latencyMs = latencyMs
    this.#inner.attach({
      clock,
      onWake: (key) => this.#broadcast((hooks) => hooks.onWake(key)),
      onPurge: () => {},
      onMark: (mark) =>
        this.#append(mark.position, (hooks, agoMs) => hooks.onMark({ ...mark, agoMs })),
      onForget: () => {},
      onGap: () => {},
      onLost: () => {},
      onError: () => {},
    })
  }

  member(): NetworkMember {
    const inner = this.#inner
    const purge = async (key: string, options: { soft: boolean }): Promise<void> => {
      await inner.purge(key, options)
      // Marks are whole numbers, so no two purges have the same position.
      this.#append(this.#last() + 0.001, (hooks) => hooks.onPurge(key, options))
    }
    const member = new NetworkMember(
      this.#clock,
      inner,
      this.#idempotency(),
      this.#log,
      purge,
      this.#latencyMs,
    )
    this.#members.push(member)
    return member
  }

  #last(): number {
    return Math.max(this.#log.at(-1)?.position ?? 0, this.#inner.position)
  }

  #append(position: number, tell: Logged['tell']): void {
    const at = this.#clock.now()
    this.#log.push({ position, at, tell })
    for (const member of this.#members) {
      this.#send(member, () =>
        member.hear(position, (hooks) => tell(hooks, this.#clock.now() - at)),
      )
    }
  }

  #broadcast(hint: Hint): void {
    for (const member of this.#members) this.#send(member, () => member.tell(hint))
  }

  #send(member: NetworkMember, deliver: () => void): void {
    for (const afterMs of this.#fate()) {
      this.#clock.setTimer(afterMs, () => {
        if (member.cut === 'no') deliver()
      })
    }
  }
}

export class NetworkMember implements StampedeStore {
  readonly name = 'network'
  readonly isAvailable = true
  readonly locks: StampedeStore['locks']
  readonly idempotency: StampedeStore['idempotency']
  readonly operator: StampedeStore['operator']
  /** `bus`: no message arrives. `all`: nothing arrives, in either direction. */
  cut: 'no' | 'bus' | 'all' = 'no'
  confirmedAt: number = Number.NEGATIVE_INFINITY
  position = 0
  readonly #clock: Clock
  readonly #inner: StampedeStore
  readonly #log: readonly Logged[]
  readonly #purge: StampedeStore['purge']
  readonly #latencyMs: () => number
  #read = 0
  #hooks: StoreHooks | undefined
  #beat: Timer | undefined

  constructor(
    clock: Clock,
    inner: StampedeStore,
    idempotency: StampedeStore['idempotency'],
    log: readonly Logged[],
    purge: StampedeStore['purge'],
    latencyMs: () => number,
  ) {
    this.#clock = clock
    this.#inner = inner
    this.locks = inner.locks
    this.operator = inner.operator
    this.idempotency = idempotency
    this.#log = log
    this.#purge = purge
    this.#latencyMs = latencyMs
  }

  attach(hooks: StoreHooks): void {
    this.#hooks = hooks
    this.#onBeat()
  }

  tell(hint: Hint): void {
    if (this.#hooks !== undefined) hint(this.#hooks)
  }

  hear(position: number, hint: Hint): void {
    this.position = Math.max(this.position, position)
    this.tell(hint)
  }

  lookup: StampedeStore['lookup'] = (key, request) =>
    this.#travel(async () => {
      if (this.#clock.now() - this.confirmedAt >= CONFIRMED_FOR_MS) this.#readLog()
      return this.#inner.lookup(key, request)
    })

  commit: StampedeStore['commit'] = (...args) => this.#travel(() => this.#inner.commit(...args))

  pass: StampedeStore['pass'] = (...args) => this.#travel(() => this.#inner.pass(...args))

  fail: StampedeStore['fail'] = (...args) => this.#travel(() => this.#inner.fail(...args))

  renew: StampedeStore['renew'] = (...args) => this.#travel(() => this.#inner.renew(...args))

  purge: StampedeStore['purge'] = async (...args) => {
    await this.#travel(() => this.#purge(...args))
    this.#readLog()
  }

  mark: StampedeStore['mark'] = async (...args) => {
    await this.#travel(() => this.#inner.mark(...args))
    this.#readLog()
  }

  async close(): Promise<void> {
    this.#beat?.cancel()
  }

  /** A command and its reply, each with its own delay. */
  async #travel<T>(work: () => Promise<T>): Promise<T> {
    await this.#way()
    const reply = await work()
    await this.#way()
    return reply
  }

  async #way(): Promise<void> {
    const ms = this.#latencyMs()
    if (ms > 0) await new Promise<void>((resolve) => this.#clock.setTimer(ms, resolve))
    if (this.cut === 'all') throw new Error('cut off')
  }

  #onBeat(): void {
    if (this.cut !== 'all') this.#readLog()
    this.#beat = this.#clock.setTimer(HEARTBEAT_MS, () => this.#onBeat())
  }

  #readLog(): void {
    const now = this.#clock.now()
    for (const { position, at, tell } of this.#log.slice(this.#read)) {
      this.hear(position, (hooks) => tell(hooks, now - at))
    }
    this.#read = this.#log.length
    this.confirmedAt = now
  }
}
