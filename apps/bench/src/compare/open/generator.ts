// The process that sends the requests of a scenario, each at its moment, whether or not earlier
// ones have ended. Usage: node generator.js.
import { connect, type Socket } from 'node:net'
import { offer } from '../lib/child.ts'
import { getRequest, readResponses } from '../lib/responses.ts'
import { type Arrival, seeded } from './arrivals.ts'

export interface FireOrder {
  readonly arrivals: readonly Arrival[]
  /** Seed that decides which process each request goes to. */
  readonly seed: number
  readonly ports: readonly number[]
  /** Prefix of every key, so that scenarios do not share keys. */
  readonly prefix: string
}

export interface Fired {
  /** Time from when each request was due until its last byte, in the order in which they ended. */
  readonly latenciesMs: readonly number[]
  /** Requests with another status than 200, or without a response. */
  readonly failed: number
}

/** After this time a request has failed, and counts with this latency. */
const GIVEN_UP_MS = 5_000

const WARM_UP_REQUESTS = 300
const WARM_UP_AT_ONCE = 10

offer({ fire, warmUp })

async function fire({ arrivals, seed, ports, prefix }: FireOrder): Promise<Fired> {
  const random = seeded(seed)
  const pools = ports.map((port) => new Pool(port))
  const latenciesMs: number[] = []
  let failed = 0
  await eachAtItsTime(arrivals, async ({ key }, dueAt) => {
    const pool = pools[Math.floor(random() * pools.length)]
    const isOk = (await pool?.get(`/items/${prefix}${key}`)) ?? false
    if (!isOk) failed += 1
    latenciesMs.push(performance.now() - dueAt)
  })
  for (const pool of pools) pool.close()
  return { latenciesMs, failed }
}

/** Opens connections and lets each process compile its code, with hits of a key of its own. */
async function warmUp({ ports, prefix }: FireOrder): Promise<void> {
  for (const port of ports) {
    const pool = new Pool(port)
    for (let i = 0; i < WARM_UP_REQUESTS / WARM_UP_AT_ONCE; i++) {
      const asked = Array.from({ length: WARM_UP_AT_ONCE }, () =>
        pool.get(`/items/${prefix}warm-up`),
      )
      const wrong = (await Promise.all(asked)).filter((isOk) => !isOk)
      if (wrong.length > 0) throw new Error(`${wrong.length} wrong responses while warming up`)
    }
    pool.close()
  }
}

function eachAtItsTime(
  arrivals: readonly Arrival[],
  send: (arrival: Arrival, dueAt: number) => Promise<void>,
): Promise<unknown> {
  const since = performance.now()
  const sent: Promise<void>[] = []
  return new Promise((resolve) => {
    const sendDue = (): void => {
      for (;;) {
        const next = arrivals[sent.length]
        const dueAt = since + (next?.atMs ?? 0)
        const inMs = dueAt - performance.now()
        if (next === undefined) resolve(Promise.all(sent))
        else if (inMs > 0) setTimeout(sendDue, inMs)
        else {
          sent.push(send(next, dueAt))
          continue
        }
        return
      }
    }
    sendDue()
  })
}

interface Connection {
  readonly socket: Socket
  settle: ((isOk: boolean) => void) | undefined
}

/** Connections to one process. A request takes an idle connection, or opens one. */
class Pool {
  readonly #port: number
  readonly #idle: Connection[] = []

  constructor(port: number) {
    this.#port = port
  }

  get(path: string): Promise<boolean> {
    const connection = this.#idle.pop() ?? this.#connect()
    return new Promise((resolve) => {
      const timer = setTimeout(() => connection.socket.destroy(), GIVEN_UP_MS)
      connection.settle = (isOk) => {
        clearTimeout(timer)
        connection.settle = undefined
        resolve(isOk)
      }
      connection.socket.write(getRequest(path))
    })
  }

  close(): void {
    for (const { socket } of this.#idle) socket.destroy()
  }

  #connect(): Connection {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    const connection: Connection = { socket, settle: undefined }
    readResponses(socket, (isOk) => {
      const { settle } = connection
      this.#idle.push(connection)
      settle?.(isOk)
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      const at = this.#idle.indexOf(connection)
      if (at >= 0) this.#idle.splice(at, 1)
      connection.settle?.(false)
    })
    return connection
  }
}
