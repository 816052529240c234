// Rules about idempotent work: it never runs twice in a live lease or under one fence, and never
// again after completion. The rule learns the server's side from replies, and the processes' side
// from the work itself.

import type { Seen } from './sim-redis.ts'
import type { Judge } from './violation.ts'

interface Held {
  fence: string
  until: number
  token: string
}

interface Work {
  readonly process: string
  readonly fence: string
  readonly isOver: () => boolean
}

export class JobRules {
  readonly #judge: Judge
  /** When each fence was granted, and for which record. */
  readonly #given = new Map<string, number>()
  readonly #records = new Map<string, string>()
  #held = new Map<string, Held>()
  #completed = new Set<string>()
  /** Runs by job. */
  readonly #working = new Map<string, Set<Work>>()
  readonly #worked = new Set<string>()
  readonly #doubtful = new Set<string>()
  readonly #isAwake: (process: string) => boolean

  constructor(judge: Judge, isAwake: (process: string) => boolean) {
    this.#judge = judge
    this.#isAwake = isAwake
  }

  /** Data was lost. Commands that the replica executes again come after this. */
  forget(): void {
    this.#held = new Map()
    this.#completed = new Set()
  }

  /** Fences may be granted again, so the known ones are no longer checked. */
  forgetFences(): void {
    for (const fence of this.#given.keys()) this.#doubtful.add(fence)
  }

  /** `steadyMs`: the server's time without its steps back. */
  saw({ command, reply }: Seen, steadyMs: number, at: number): void {
    const { name, keys, args } = command
    const [key = ''] = keys
    if (!key.includes('{=i:')) return
    if (name === 'begin-record') this.#onBegin(key, args, reply as unknown[], steadyMs, at)
    if (name === 'finish-record') this.#onFinish(key, args, String((reply as unknown[])[0]))
    if (name === 'renew' && reply === 'RENEWED') {
      const held = this.#held.get(key)
      if (held === undefined || held.token !== args[0]) {
        this.#judge.fail('no renewal of what is lost', `an attempt was renewed too late`, key)
      } else held.until = steadyMs + Number(args[2])
    }
  }

  /** `since`: the server lost data, or its clock was set forward. Older grants are not reliable. */
  begin(job: string, work: Work, since: number): void {
    const record = this.#records.get(work.fence)
    const name = `${job} ${work.fence}`
    if (this.#worked.has(name) && !this.#doubtful.has(work.fence))
      this.#judge.fail('one run a fence', `${name} ran twice`, job)
    this.#worked.add(name)
    const isAgain = record !== undefined && this.#completed.has(record)
    if (isAgain && !this.#doubtful.has(work.fence)) {
      this.#judge.fail('not again', `${work.process} ran ${job} after it was completed`, job)
    }
    const working = this.#working.get(job) ?? new Set()
    this.#working.set(job, working.add(work))
    for (const other of working) {
      if (other === work || other.isOver() || !this.#isAwake(other.process)) continue
      if ((this.#given.get(other.fence) ?? 0) <= since) continue
      const detail = `${work.process} ran ${job} while ${other.process} was at it`
      this.#judge.fail('not twice', detail, job)
    }
  }

  end(job: string, work: Work): void {
    this.#working.get(job)?.delete(work)
  }

  died(process: string): void {
    for (const working of this.#working.values()) {
      for (const work of working) if (work.process === process) working.delete(work)
    }
  }

  #onBegin(
    key: string,
    [token = '', , , leaseMs]: readonly string[],
    reply: unknown[],
    now: number,
    at: number,
  ): void {
    if (reply[0] !== 'BEGUN') return
    const fence = String(reply[2])
    const held = this.#held.get(key)
    if (held?.fence === fence) return
    if (held !== undefined && now < held.until) {
      this.#judge.fail('not twice', 'an attempt began inside the lease of another', key)
    }
    if (this.#completed.has(key)) this.#judge.fail('not again', 'it began once more', key)
    this.#held.set(key, { fence, token, until: now + Number(leaseMs) })
    this.#given.set(fence, at)
    this.#records.set(fence, key)
  }

  #onFinish(key: string, [token, fence, as]: readonly string[], reply: string): void {
    if (reply !== 'FINISHED' && reply !== 'RESURRECTED') return
    const held = this.#held.get(key)
    if (held !== undefined && (held.token !== token || (fence !== '*' && held.fence !== fence))) {
      this.#judge.fail('newest attempt', `a finish of another was accepted`, key)
    }
    this.#held.delete(key)
    if (as === 'completed') this.#completed.add(key)
  }
}
