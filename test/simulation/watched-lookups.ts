// Records which of three ways answered each lookup of a process: a delivered entry, a plain read,
// or the script. It is seen from outside, by the commands sent meanwhile. For all three, an entry
// that is called fresh must be fresh.

import type { StampedeStore } from '@stampede/core'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import type { Net } from './link.ts'
import type { Command } from './sim-redis.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>
type LookupRequest = Parameters<StampedeStore['lookup']>[1]

const { record } = names('stampede')
/** The server gives times in whole milliseconds. */
const ROUNDING_MS = 2
/** If there is no fault, an unheard grant has been undone after this time. */
const UNDONE_MS = 3_000

export class WatchedLookups {
  readonly #net: Net
  readonly #process: string
  /** Records and tokens of the lookups since their last beginning. */
  readonly #sent = new Set<string>()

  /** When each token was last used. */
  readonly #asked = new Map<string, number>()

  constructor(net: Net, process: string) {
    this.#net = net
    this.#process = process
  }

  sent({ name, keys, args }: Command): void {
    if (name === 'HMGET') this.#sent.add(keys[0] ?? '')
    else if (name === 'lookup-or-lease') this.#sent.add(args[0] ?? '')
  }

  watch(store: StampedeStore): StampedeStore {
    const lookup = store.lookup.bind(store)
    store.lookup = async (key, request) => {
      const [read, scripted] = [record(key), request.token]
      this.#sent.delete(read)
      this.#sent.delete(scripted)
      const { server, figures } = this.#net
      const askedAt = server.data.now
      this.#asked.set(request.token, askedAt)
      const reply = await lookup(key, request).catch((error) => {
        this.#watchUndo(read, request, askedAt)
        throw error
      })
      if (this.#sent.delete(scripted)) figures.scripted += 1
      else if (this.#sent.delete(read)) figures.readFirst += 1
      else figures.told += 1
      if (reply.status === 'fresh') this.#check(key, reply, askedAt)
      return reply
    }
    return store
  }

  /** A lease whose reply was lost is given back, so that other processes need not wait for it. */
  #watchUndo(record: string, { token, leaseMs }: LookupRequest, askedAt: number): void {
    if (leaseMs <= UNDONE_MS) return
    const { kernel, server, judge, isCalm, records } = this.#net
    kernel.after(UNDONE_MS, () => {
      // A process that asks again under its token keeps it.
      if (!records.isHeld(record, token, server.data)) return
      if (this.#asked.get(token) !== askedAt || !isCalm(UNDONE_MS + 1_000)) return
      const detail = `${this.#process} has the lease of ${record} and does not know it`
      judge.fail('taken back', detail, record)
    })
  }

  /**
   * Not checked after the clock was set, because a delivered entry is judged by the last known
   * clock.
   */
  #check(
    key: string,
    { stored }: Extract<LookupReply, { status: 'fresh' }>,
    askedAt: number,
  ): void {
    const { server, judge, records } = this.#net
    const until = records.freshUntil(record(key), stored.fence)
    if (until === undefined || server.offsetMs !== 0 || server.steppedBack) return
    const forMs = until - askedAt
    if (forMs > -ROUNDING_MS && stored.freshForMs <= forMs + ROUNDING_MS) return
    const detail = `${this.#process}: lookup of ${key} said fresh for ${stored.freshForMs.toFixed(0)} ms, correct is ${forMs.toFixed(0)} ms`
    judge.fail('fresh is fresh', detail, key)
  }
}
