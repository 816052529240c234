// Measures rows that are servers: the CPU time of the server's process, and the rate.
import { type Child, startChild } from '../lib/child.ts'
import type { RequestKind } from '../lib/requests.ts'
import { type Row, type RowSpec, runRows } from '../lib/rows.ts'

export interface ServerRow extends RowSpec {
  /** The server in `servers.ts`. Default: its id. */
  readonly server?: string
  /** Default: `same`. */
  readonly request?: RequestKind
  readonly isOverRedis?: boolean
  /** The highest ratio that meets the target. */
  readonly wanted?: number
}

export interface ServerPlan {
  readonly title: string
  readonly rows: readonly ServerRow[]
  readonly rounds: number
  readonly roundMs: number
  readonly warmUpMs: number
  readonly redisUrl: string
}

const CONNECTIONS = 50
/** Load before each round: the server was idle, so its memory may be swapped out. */
const AWAKE_MS = 250

export async function runServers(plan: ServerPlan): Promise<Row<ServerRow>[]> {
  await using loader = await startChild<typeof import('../lib/loader.ts')>('lib/loader', [])
  // `await`: the loader ends when this function returns.
  return await runRows({ ...plan, setUp: (row) => startServer(row, plan, loader) })
}

async function startServer(
  row: ServerRow,
  { roundMs, warmUpMs, redisUrl }: ServerPlan,
  loader: Child<typeof import('../lib/loader.ts')>,
) {
  const { id, server = id, request = 'same', isOverRedis } = row
  const args: [string, string] = [server, isOverRedis ? redisUrl : '']
  const child = await startChild<typeof import('./serve.ts')>('compare/serve', args)
  const port = await child.call.port()
  const load = (durationMs: number) =>
    loader.call.closedLoop({ port, request, durationMs, connections: CONNECTIONS })
  return {
    warmUp: () => load(warmUpMs),
    async measure() {
      await load(AWAKE_MS)
      const before = await child.call.usage()
      const { requests, wrong, durationMs, cpuMicros: loaderMicros } = await load(roundMs)
      const after = await child.call.usage()
      if (wrong > 0) throw new Error(`${id}: ${wrong} of ${requests} responses are wrong`)
      checkOriginCalls(row, after.originCalls - before.originCalls, requests)
      const cpuMicros = (after.cpuMicros - before.cpuMicros) / requests
      return { rate: (requests * 1_000) / durationMs, cpuMicros, loaderMicros }
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

/** Throws if a hit called the origin, or a miss did not: the figure would have a wrong name. */
export function checkOriginCalls(
  { id, kind, request = 'same' }: ServerRow,
  calls: number,
  requests: number,
): void {
  const isRepeated = ['same', 'repeated-order', 'query'].includes(request)
  const wanted = kind !== 'uncached' && isRepeated ? 0 : requests
  if (calls !== wanted) throw new Error(`${id}: ${calls} origin calls for ${requests} requests`)
}
