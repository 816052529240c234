// The rule about time: every call ends within the bound of its options, and no wait outlasts the
// lease it waits for. A process that is paused gets that time in addition.

import type { Member } from './member.ts'
import type { Judge } from './violation.ts'

export interface Call {
  readonly member: Member
  readonly what: string
  readonly about: string
  readonly budgetMs: number
  readonly askedAt: number
  readonly pausedMs: number
}

interface Wait {
  readonly member: Member
  readonly key: string
  readonly forMs: number
  readonly since: number
  readonly pausedMs: number
}

/**
 * The wait of `engine.ts` has this minimum and a random addition, so that waiters do not all look
 * up at once. The simulation step is added.
 */
const LEAST_MS = 20
const SPREAD_MS = 45

export class CallRules {
  readonly open = new Set<Call>()
  readonly #judge: Judge
  readonly #waits = new Map<string, Wait>()
  readonly #now: () => number

  constructor(judge: Judge, now: () => number) {
    this.#judge = judge
    this.#now = now
  }

  begin(member: Member, what: string, about: string, budgetMs: number): Call {
    const { pausedMs } = member
    const call: Call = { member, what, about, budgetMs, askedAt: this.#now(), pausedMs }
    this.open.add(call)
    return call
  }

  end(call: Call): void {
    this.open.delete(call)
    this.#check(call)
  }

  waits(member: Member, key: string, forMs: number): void {
    const { pausedMs } = member
    this.#waits.set(`${member.name} ${key}`, { member, key, forMs, since: this.#now(), pausedMs })
  }

  woken(member: Member, key: string): void {
    const wait = this.#waits.get(`${member.name} ${key}`)
    if (wait !== undefined) this.#checkWait(wait)
    this.#waits.delete(`${member.name} ${key}`)
  }

  died(member: Member): void {
    for (const call of this.open) if (call.member === member) this.open.delete(call)
    for (const [name, wait] of this.#waits) if (wait.member === member) this.#waits.delete(name)
  }

  /** Calls that have not ended. */
  sweep(): void {
    for (const call of this.open) this.#check(call)
    for (const wait of this.#waits.values()) this.#checkWait(wait)
  }

  #check({ member, what, about, budgetMs, askedAt, pausedMs }: Call): void {
    const tookMs = this.#now() - askedAt - (member.pausedMs - pausedMs)
    if (tookMs <= budgetMs) return
    const detail = `${what} in ${member.name} took ${tookMs.toFixed(0)} ms of ${budgetMs}`
    this.#judge.fail('in time', detail, about)
  }

  #checkWait({ member, key, forMs, since, pausedMs }: Wait): void {
    const tookMs = this.#now() - since - (member.pausedMs - pausedMs)
    if (tookMs <= Math.max(forMs, LEAST_MS) + SPREAD_MS) return
    const detail = `${member.name} waited ${tookMs.toFixed(0)} ms for a lease of ${forMs} ms`
    this.#judge.fail('no wait beyond the lease', detail, key)
  }
}
