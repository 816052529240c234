// Everything of one episode: the time, the server, the processes, and the rules with their inputs.

import type { StampedeEvent } from '@stampede/core'
import { CallRules } from './call-rules.ts'
import { chanceOf } from './chance.ts'
import type { Figures } from './figures.ts'
import { FreshnessRules } from './freshness-rules.ts'
import { JobRules } from './job-rules.ts'
import { Kernel } from './kernel.ts'
import type { Keyspace } from './keyspace.ts'
import { LeaseEndRules } from './lease-end-rules.ts'
import { LockRules } from './lock-rules.ts'
import { Member } from './member.ts'
import { OriginRules } from './origin-rules.ts'
import { PrivacyRules } from './privacy-rules.ts'
import { leave } from './process-time.ts'
import { RecordRules } from './record-rules.ts'
import { type Seen, SimRedis } from './sim-redis.ts'
import { StoredLives } from './stored-lives.ts'
import { Transcript } from './transcript.ts'
import { Judge } from './violation.ts'

/** After this time, a process that knows more than the server has looked up and told it. */
const RESTORED_MS = 5_000

export class World {
  readonly #byName = new Map<string, Member>()
  readonly kernel = new Kernel(leave)
  readonly server = new SimRedis(this.kernel)
  readonly seed: number
  readonly figures: Figures
  readonly transcript = new Transcript()
  readonly judge = new Judge()
  readonly origins = new OriginRules(this.judge)
  readonly records = new RecordRules(this.judge, {
    onGrant: (record, fence) => this.origins.given(/\{=(d:.*)\}$/.exec(record)?.[1] ?? '', fence),
    steppedBack: () => this.server.steppedBack,
  })
  readonly lockRules = new LockRules(this.judge)
  readonly #isAwake = (name: string): boolean => this.#byName.get(name)?.isAwake === true
  readonly jobs = new JobRules(this.judge, this.#isAwake)
  readonly leaseEnds = new LeaseEndRules(this.judge, {
    now: () => this.kernel.now,
    after: (delayMs, run) => this.kernel.after(delayMs, run),
    isAwake: this.#isAwake,
  })
  readonly freshness: FreshnessRules
  readonly stored = new StoredLives((...of) => this.freshness.lives(...of))
  readonly privacy = new PrivacyRules(this.judge)
  readonly calls = new CallRules(this.judge, () => this.kernel.now)
  members: Member[] = []
  /** When a fault last began or ended. */
  disturbedAt = 0
  /** Share of the processes without an L1. */
  withoutL1 = 0
  /**
   * When the server last lost data, or its clock was set forward. It may repeat its earlier grants.
   */
  brokenAt = Number.NEGATIVE_INFINITY
  #started = 0

  constructor(seed: number, figures: Figures) {
    this.seed = seed
    this.figures = figures
    this.freshness = new FreshnessRules(this.judge, figures)
    this.server.witness = (...of) => this.#saw(...of)
    this.server.onBroken = (error) => this.judge.fail('no script fails', String(error), '')
    this.server.onLoss = (snapshotAt) => this.#onLoss(snapshotAt)
  }

  note(who: string, what: string): void {
    this.transcript.add(this.kernel.now, who, what)
  }

  start(): Member {
    const { kernel, server, figures, judge, records } = this
    const random = chanceOf(this.seed, 'process', this.#started)
    const name = `p${this.#started++}`
    const hasL1 = !chanceOf(this.seed, 'without-l1', this.#started).chance(this.withoutL1)
    const isCalm = (forMs: number) => this.isCalm(name, forMs)
    const member = new Member(
      { kernel, server, random, figures, judge, isCalm, records },
      name,
      hasL1,
    )
    this.members.push(member)
    this.#byName.set(name, member)
    member.stampede.on('*', (event) => this.#onEvent(member, event))
    return member
  }

  kill(member: Member): void {
    member.kill()
    this.members = this.members.filter((each) => each !== member)
    this.#byName.delete(member.name)
    for (const rules of [this.origins, this.lockRules, this.jobs, this.leaseEnds, this.freshness]) {
      rules.died(member.name)
    }
    this.calls.died(member)
  }

  /** If the clock was set back, lifetimes are longer by that time, so this is not checked. */
  checkAge(process: string, key: string, askedAt: number, version: number): void {
    if (!this.server.steppedBack) this.freshness.inTime(process, key, askedAt, version)
  }

  /** No fault for this time, and none now in this process or the server. */
  isCalm(name: string, forMs: number): boolean {
    const { server, kernel } = this
    const member = this.#byName.get(name)
    if (member === undefined || !member.isAwake || !member.isWell) return false
    const isUp = server.mode === 'up' && server.slowMs === 0 && !server.isDemoted
    return isUp && kernel.now - this.disturbedAt >= forMs
  }

  sweep(): void {
    this.calls.sweep()
    this.leaseEnds.sweep()
    if (this.server.steppedBack) this.freshness.forgetLost()
    this.freshness.restore((process) => this.isCalm(process, RESTORED_MS), this.kernel.now)
  }

  /** Sets the server's clock. */
  setClock(byMs: number): void {
    this.server.step(byMs)
    if (byMs > 0) this.brokenAt = this.kernel.now
    else if (this.brokenAt > Number.NEGATIVE_INFINITY) this.#forgetFences()
  }

  #saw(seen: Seen, data: Keyspace, isAgain: boolean): void {
    const { kernel, server } = this
    const { command, reply } = seen
    this.records.saw(seen, data, isAgain)
    this.stored.saw(seen, kernel.now)
    this.lockRules.saw(seen, kernel.now)
    this.jobs.saw(seen, server.steadyMs, kernel.now)
    if (!isAgain) this.leaseEnds.saw(seen)
    if (isAgain || QUIET.has(command.name)) return
    const status = Array.isArray(reply) ? reply.slice(0, 4).map(shown).join(' ') : String(reply)
    const key = /\{(.*)\}/.exec(command.keys[0] ?? '')?.[1] ?? ''
    this.note('redis', `${command.name} ${key.slice(0, 12)} ${status}`)
  }

  #onLoss(snapshotAt: number): void {
    const { server, kernel } = this
    this.brokenAt = kernel.now
    this.records.forget()
    this.jobs.forget()
    if (server.steppedBack) this.#forgetFences()
    // After the loss of the whole history a new one starts, which makes all earlier entries
    // outdated, if the clock is reliable.
    const isEmpty = snapshotAt === Number.NEGATIVE_INFINITY
    if (!isEmpty || server.steppedBack) this.freshness.lost(snapshotAt, kernel.now)
  }

  /** Data was lost and the clock was set back, so forgotten fences may be granted again. */
  #forgetFences(): void {
    const { records, lockRules, origins, jobs, leaseEnds } = this
    for (const rules of [records, lockRules, origins, jobs, leaseEnds]) rules.forgetFences()
  }

  #onEvent(member: Member, event: StampedeEvent): void {
    const { type, internalKey: key } = event
    const { name } = member
    if (type === 'wait.started') this.calls.waits(member, key, event.busyForMs)
    else if (type === 'wait.ended') this.calls.woken(member, key)
    else if (type === 'fill.started' && key.startsWith('d:')) this.origins.announce(name, key)
    else if (type === 'entry.purged')
      this.origins.purged(name, key.startsWith('d:') ? key : undefined)
    else if (type === 'bus.gap') this.origins.purged(name, undefined)
    else if (type === 'fill.committed') this.figures.committed += 1
    else if (type === 'fill.fenced') this.figures.fenced += 1
    else if (type === 'fill.failed') this.figures.failed += 1
    if (SHOWN.has(type)) this.note(name, `${type} ${key.slice(0, 12)}`)
  }
}

/** There are too many, and they do not help. */
const QUIET = new Set(['ping', 'HMGET', 'TIME', 'PERSIST', 'INFO', 'subscribe', 'read-purges'])
const SHOWN = new Set([
  'fill.started',
  'lease.granted',
  'wait.timed-out',
  'store.failed',
  'fill.failed',
  'wait.started',
  'wait.ended',
  'entry.purged',
  'fill.fenced',
  'lease.lost',
  'bus.gap',
])

/** Without the random part of a purge's ID, which differs each time. */
function shown(value: unknown): string {
  if (typeof value === 'string' && value.length > 40) return `${value.length} bytes`
  return String(value).replace(/^(\d+)-\d+$/, '$1')
}
