// A TCP proxy that injects faults between a client and a healthy Redis.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface TcpProxy extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** Open connections through the proxy. */
  connections(): number
  /** Resets every open connection. New ones are still accepted. */
  drop(): void
  /** Refuses new connections. Open ones stay. */
  refuse(): Promise<void>
  accept(): Promise<void>
  /** New connections go to another port of the same host. */
  moveTo(port: number): void
  /**
   * Forwards nothing, or no replies of the server, without closing. New connections are stalled
   * too.
   */
  stall(what?: 'all' | 'replies'): void
  /** Forwards again, beginning with the delayed data. */
  flow(): void
  /** Delays all later data by this time, in each direction. 0 ends it. */
  delay(ms: number): void
  /** Limits all later data to this many bytes a millisecond. 0 ends it. */
  throttle(bytesPerMs: number): void
  stop(): Promise<void>
}

export interface ProxyOptions {
  /**
   * The connections to which `drop`, `stall`, `flow` and `delay` apply. Default: every connection.
   */
  readonly affects?: 'subscribers'
}

/** A proxy on a free port of 127.0.0.1 that forwards to `targetPort`. */
export async function startProxy(
  targetPort: number,
  targetHost = '127.0.0.1',
  { affects }: ProxyOptions = {},
): Promise<TcpProxy> {
  let target = targetPort
  const pairs = new Set<Pair>()
  const state: ProxyState = { stalled: undefined, delayMs: 0, bytesPerMs: 0, affects }

  const server = createServer((client) => {
    const pair = forward(client, connect(target, targetHost), state)
    pairs.add(pair)
    client.once('close', () => pairs.delete(pair))
  })
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  await listen(0)
  const { port } = server.address() as AddressInfo

  // Only closes the listening socket, because its callback would wait for the open connections.
  const refuse = async () => void server.close()
  const drop = () => {
    for (const pair of pairs) if (isAffected(state, pair)) pair.destroy()
  }
  const stop = async () => {
    for (const pair of pairs) pair.destroy()
    await refuse()
  }

  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    connections: () => pairs.size,
    drop,
    refuse,
    async accept() {
      if (!server.listening) await listen(port)
    },
    moveTo(other) {
      target = other
    },
    stall(what = 'all') {
      state.stalled = what
      for (const pair of pairs) pair.pump()
    },
    flow() {
      state.stalled = undefined
      for (const pair of pairs) pair.pump()
    },
    delay(ms) {
      state.delayMs = ms
    },
    throttle(bytesPerMs) {
      state.bytesPerMs = bytesPerMs
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

interface ProxyState {
  stalled: 'all' | 'replies' | undefined
  delayMs: number
  bytesPerMs: number
  readonly affects: 'subscribers' | undefined
}

function isAffected({ affects }: ProxyState, pair: { readonly subscribes: boolean }): boolean {
  return affects === undefined || pair.subscribes
}

interface Pair {
  /** A SUBSCRIBE was seen on this connection. */
  readonly subscribes: boolean
  pump(): void
  destroy(): void
}

function forward(client: Socket, target: Socket, state: ProxyState): Pair {
  const pair = { subscribes: false }
  client.on('data', (data: Buffer) => {
    if (/\bsubscribe\b/i.test(data.toString('latin1'))) pair.subscribes = true
  })
  const isStalled =
    (...what: Array<ProxyState['stalled']>) =>
    () =>
      what.includes(state.stalled) && isAffected(state, pair)
  const lanes = [
    lane(client, target, state, pair, isStalled('all')),
    lane(target, client, state, pair, isStalled('all', 'replies')),
  ]
  const destroy = () => {
    client.resetAndDestroy()
    target.resetAndDestroy()
  }
  for (const socket of [client, target]) {
    socket.setNoDelay(true)
    socket.on('error', destroy)
  }
  return {
    get subscribes() {
      return pair.subscribes
    },
    pump() {
      for (const pump of lanes) pump()
    },
    destroy,
  }
}

// One direction: a queue of data, each with the time at which it is due. `undefined` ends the
// queue.
function lane(
  from: Socket,
  to: Socket,
  state: ProxyState,
  pair: { readonly subscribes: boolean },
  isStalled: () => boolean,
): () => void {
  const queue: { data: Buffer | undefined; due: number }[] = []
  let timer: NodeJS.Timeout | undefined

  function pump(): void {
    clearTimeout(timer)
    while (queue[0] && !isStalled()) {
      const waitMs = queue[0].due - performance.now()
      if (waitMs > 0) {
        timer = setTimeout(pump, waitMs)
        return
      }
      const { data } = queue.shift() ?? {}
      if (to.destroyed) continue
      if (data) to.write(data)
      else to.end()
    }
  }
  function enqueue(data: Buffer | undefined): void {
    // Never before data that is already waiting, or a shorter delay would overtake a longer one.
    const delayMs = isAffected(state, pair) ? state.delayMs : 0
    const { bytesPerMs } = state
    const takesMs = bytesPerMs > 0 ? (data?.length ?? 0) / bytesPerMs : 0
    const due = Math.max(performance.now() + delayMs, queue.at(-1)?.due ?? 0) + takesMs
    queue.push({ data, due })
    pump()
  }

  from.on('data', enqueue)
  from.on('end', () => enqueue(undefined))
  from.on('close', () => {
    if (to.destroyed) clearTimeout(timer)
  })
  return pump
}
