// Rules about the records of the cache, as the server sees them: one lease at a time, fences that rise, one commit a fence,
// none after a purge, no renewal of what is over, and a wake-up for all who were told to wait.

import type { ServerData } from './server-data.ts'
import type { Command } from './sim-redis.ts'
import type { Judge } from './violation.ts'

interface Record {
  token: string
  fence: number
  until: number
  /** Not ended, and not purged since. */
  isOpen: boolean
  accepted: number
  acceptedBy: string
  /** Grants up to this one were purged. */
  voided: number
}

export class RecordRules {
  readonly #judge: Judge
  #records = new Map<string, Record>()
  /** Before data was lost. */
  #highest = new Map<string, number>()

  readonly #onGrant: (record: string, fence: string) => void

  constructor(judge: Judge, onGrant: (record: string, fence: string) => void) {
    this.#judge = judge
    this.#onGrant = onGrant
  }

  /** Data was lost. */
  forget(): void {
    for (const [key, { fence }] of this.#records) {
      this.#highest.set(key, Math.max(fence, this.#highest.get(key) ?? 0))
    }
    this.#records = new Map()
  }

  /** Of what was lost before. */
  forgetFences(): void {
    this.#highest.clear()
  }

  saw(command: Command, reply: unknown, data: ServerData, isAgain: boolean): void {
    const { name, keys, args } = command
    const [key = ''] = keys
    if (!key.includes('{=d:')) return
    const record = this.#record(key)
    if (name === 'lookup-or-lease') this.#onLookup(key, record, args, reply as unknown[], isAgain)
    else if (name === 'commit' || name === 'extend') {
      if (reply === 'FENCED') return
      this.#onCommit(key, record, args)
    } else if (name === 'end-lease' && reply === 'ENDED') {
      record.isOpen = false
    } else if (name === 'renew' && reply === 'RENEWED') {
      this.#onRenew(key, record, args, data.now)
      return
    } else if (name === 'purge') {
      record.voided = record.fence
      record.isOpen = false
    } else return
    if (name !== 'lookup-or-lease' && !isAgain && data.waits.has(key)) {
      this.#judge.fail('woken', `${name} ended a lease that others wait for, and told nobody`, key)
    }
  }

  #onLookup(
    key: string,
    record: Record,
    [token = '', leaseMs]: readonly string[],
    [, at, granted]: unknown[],
    isAgain: boolean,
  ): void {
    if (granted === undefined || granted === '') return
    const [now, fence] = [Number(at), Number(granted)]
    if (record.isOpen && record.token === token && record.fence === fence) return
    if (record.isOpen && now < record.until) {
      this.#judge.fail('one lease', `fence ${fence} was granted while ${record.fence} is held`, key)
    }
    const before = Math.max(record.fence, isAgain ? 0 : (this.#highest.get(key) ?? 0))
    if (fence <= before) {
      this.#judge.fail('rising fences', `${fence} was granted after ${before}`, key)
    }
    Object.assign(record, { token, fence, until: now + Number(leaseMs), isOpen: true })
    this.#onGrant(key, String(fence))
  }

  #onCommit(key: string, record: Record, [token = '', text]: readonly string[]): void {
    const fence = Number(text)
    if (fence === record.accepted) {
      if (token === record.acceptedBy) return
      this.#judge.fail('one commit a fence', `${fence} was accepted from two`, key)
    }
    if (fence <= record.voided) {
      this.#judge.fail('no commit after a purge', `${fence} was accepted after a purge`, key)
    }
    if (fence < record.accepted) {
      this.#judge.fail('rising commits', `${fence} was accepted after ${record.accepted}`, key)
    }
    if (fence !== record.fence || token !== record.token || !record.isOpen) {
      this.#judge.fail('newest grant', `${fence} was accepted, the newest is ${record.fence}`, key)
    }
    Object.assign(record, { accepted: fence, acceptedBy: token, isOpen: false })
  }

  #onRenew(key: string, record: Record, args: readonly string[], now: number): void {
    const [token, fence, leaseMs] = args
    if (!record.isOpen || `${record.fence}` !== fence || record.token !== token) {
      this.#judge.fail('no renewal of what is lost', `${fence} was renewed after it was lost`, key)
    }
    record.until = now + Number(leaseMs)
  }

  #record(key: string): Record {
    const known = this.#records.get(key)
    if (known !== undefined) return known
    const made: Record = {
      token: '',
      fence: 0,
      until: 0,
      isOpen: false,
      accepted: 0,
      acceptedBy: '',
      voided: 0,
    }
    this.#records.set(key, made)
    return made
  }
}
