// The stage of the fault plan: a cluster, a worker behind a proxy, and a worker for duplicates.
import type { PostgresSource } from '../../harness/find-postgres.ts'
import { type FleetMember, startFleet } from '../../harness/fleet.ts'
import { type PostgresServer, startPostgres } from '../../harness/postgres.ts'
import {
  type PostgresProxy,
  type ProxiedRequest,
  startPostgresProxy,
} from '../../harness/postgres-proxy.ts'
import { waitUntil } from '../../harness/wait-until.ts'
import { Judge, TABLES } from './judge.ts'
import type { Kind } from './kinds.ts'

const APP = new URL('../../harness/servers/transaction-app.mjs', import.meta.url)
const OTHER_BUILD = new URL('../../harness/servers/other-build.mjs', import.meta.url)

/** Shorter than in production, so that the plan takes minutes. */
const IDLE_MS = 1_000

/** A changed text in a built file: [file, from, to]. */
export type Edit = readonly [file: string, from: string, to: string]

export interface StageOptions {
  /** The environment of the workers. */
  readonly env?: Readonly<Record<string, string>>
  /** Changes in the build of the workers. */
  readonly edits?: readonly Edit[]
  /** Settings of the server. */
  readonly settings?: Readonly<Record<string, string | number>>
  /** Default: the PostgreSQL of this run. */
  readonly source?: PostgresSource
}

/** Starts a worker on a database. */
export async function startWorker(
  url: string,
  { env = {}, edits = [] }: StageOptions,
): Promise<FleetMember> {
  const fleet = await startFleet({
    size: 1,
    entry: edits.length > 0 ? OTHER_BUILD : APP,
    env: {
      DATABASE_URL: url,
      POSTGRES: JSON.stringify({ idleMs: IDLE_MS }),
      APP: APP.href,
      EDITS: JSON.stringify(edits),
      ...env,
    },
  })
  const [worker] = fleet.members
  if (worker === undefined) throw new Error('a fleet of one has one member')
  return worker
}

function deferred<T>() {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

export class Stage implements AsyncDisposable {
  readonly judge = new Judge()
  readonly server: PostgresServer
  readonly proxy: PostgresProxy
  readonly #options: StageOptions
  readonly #other: FleetMember
  readonly #crashes: string[] = []
  #struck: FleetMember | undefined
  #warmUps = 0

  static async open(options: StageOptions = {}): Promise<Stage> {
    const { settings = {}, source } = options
    const server = await startPostgres({ fsync: true, settings, ...(source && { source }) })
    await server.query(TABLES)
    const proxy = await startPostgresProxy(server.port)
    try {
      return new Stage(options, server, proxy, await startWorker(server.url, options))
    } catch (error) {
      await proxy.stop()
      await server.stop()
      throw error
    }
  }

  private constructor(
    options: StageOptions,
    server: PostgresServer,
    proxy: PostgresProxy,
    other: FleetMember,
  ) {
    this.#options = options
    this.server = server
    this.proxy = proxy
    this.#other = other
  }

  /** The requests of a POST without a fault. */
  async requestsOfPost(): Promise<readonly ProxiedRequest[]> {
    const worker = await this.#ready()
    await this.judge.post(worker.url, 'no-fault')
    return this.proxy.requests()
  }

  /**
   * A POST with a fault at its request with this number, and three duplicates. Returns whether the
   * fault struck: it does not if the POST has fewer requests.
   */
  async strike(kind: Kind, number: number): Promise<boolean> {
    const worker = await this.#ready()
    // Without quotes, a key has no spaces.
    const key = `${kind.name}-${number}`.replace(/\W+/g, '-')
    const left = new AbortController()
    let isStruck = false
    const struck = deferred<void>()
    const duplicates = deferred<void>()
    const act = async (request: ProxiedRequest) => {
      if (request.number !== number) return 'forward'
      isStruck = true
      if (kind.holds) struck.resolve()
      const leave = () => left.abort()
      const { server } = this
      const { backend } = request
      const all = { worker, server, backend, leave, duplicates: duplicates.promise }
      const fate = await kind.act(all)
      struck.resolve()
      return fate
    }
    this.proxy.intercept({ [kind.at]: act })
    const first = this.judge.post(worker.url, key, { signal: left.signal })
    await Promise.race([struck.promise, first])
    // A client may see the fault before it is complete.
    if (isStruck) await struck.promise
    if (!this.server.isRunning()) await this.server.restart()
    const toSame = () => (kind.holds || worker.exit() ? this.#other.url : worker.url)
    const toOther = () => this.#other.url
    const urls = [toSame, toOther, toOther]
    await Promise.all(urls.map((url) => this.judge.postUntilDone(url, key)))
    duplicates.resolve()
    await first
    if (worker.exit() && !kind.killsWorker) this.#crashes.push(`${key}: crash: ${worker.stderr()}`)
    return isStruck
  }

  /** A worker whose pool has connections, as has that of the other one. */
  async #ready(): Promise<FleetMember> {
    this.proxy.intercept()
    if (this.#struck === undefined || this.#struck.exit())
      this.#struck = await startWorker(this.proxy.url, this.#options)
    const worker = this.#struck
    for (const { url } of [worker, this.#other])
      await this.judge.postUntilDone(() => url, `warm-up-${++this.#warmUps}`)
    if (this.#other.exit()) throw new Error(`The other worker crashed: ${this.#other.stderr()}`)
    this.proxy.intercept()
    return worker
  }

  /** Broken promises of all strikes so far, and workers that ended by themselves. */
  async violations(): Promise<string[]> {
    await waitUntil('the server has recovered', () => this.server.accepts())
    return [...(await this.judge.violations(this.server)), ...this.#crashes]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#struck?.kill(), this.#other.kill()])
    await this.proxy.stop()
    await this.server.stop()
  }
}
