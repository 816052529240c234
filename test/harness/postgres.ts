// PostgreSQL clusters of the tests: started, frozen, killed and started again, with standbys. Each
// has a folder and a port of its own and is reached by TCP, as user `postgres` without a password.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chown, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import type { PostgresSource } from './find-postgres.ts'
import { freePort } from './free-port.ts'
import { guard, signal } from './guard.ts'
import { ofThisRun } from './versions.ts'
import { waitUntil } from './wait-until.ts'

export interface PostgresOptions {
  /** Settings of the server, such as `{ max_connections: 40 }`. */
  readonly settings?: Readonly<Record<string, string | number>>
  /**
   * Default false: commits do not wait for the disk. What was committed outlives a killed server in
   * any case, because the pages are with the kernel.
   */
  readonly fsync?: boolean
  /** Further environment variables of the server. */
  readonly env?: NodeJS.ProcessEnv
  /** Default: the PostgreSQL that global set-up found. Required outside of Vitest. */
  readonly source?: PostgresSource
}

export type Row = Record<string, unknown>

export interface PostgresServer extends AsyncDisposable {
  readonly host: string
  readonly port: number
  readonly url: string
  /** The postmaster. */
  readonly pid: number
  /** The folder with the data. */
  readonly folder: string
  readonly source: PostgresSource
  /** Runs one statement on a connection of its own, whose `application_name` is `harness`. */
  query<T = Row>(text: string, values?: readonly unknown[]): Promise<T[]>
  /** Client connections other than the harness's own. */
  connections(): Promise<number>
  /** Everything that the server logged since its last start. */
  log(): string
  /** Commits that wrote something while `work` ran, by the write-ahead log. */
  commitsOf(work: () => Promise<unknown>): Promise<number>
  /** Freezes the server with all its processes. Connections stay open, nothing replies. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Kills the postmaster without warning. Its processes notice that and end, too. */
  kill(): Promise<void>
  /** Kills the server if it runs, and starts it with its data on the same port. */
  restart(): Promise<void>
  /** A synchronous standby: from now on, commits wait for it. It ends with this server. */
  startStandby(): Promise<PostgresStandby>
  isRunning(): boolean
  /** Whether it accepts connections. It does not while it recovers from a killed process. */
  accepts(): Promise<boolean>
  /** Ends the server and removes its files. */
  stop(): Promise<void>
}

export interface PostgresStandby extends PostgresServer {
  /** Makes it a primary. Kill the old one before. */
  promote(): Promise<void>
}

export const HAS_POSTGRES: boolean = inject('postgresSource') !== undefined

/** `describe`, which is skipped without a PostgreSQL. Global set-up has printed the reason. */
export const describePostgres = describe.skipIf(!HAS_POSTGRES)

/** The version of the `describePostgresVersions` whose tests are collected now. */
let versionOfSuite: PostgresSource | undefined

/**
 * As `describePostgres`, on each version of this run. `npm run test:soak` has other versions, which
 * lack `pg_basebackup` and `pg_waldump`. Without any, the tests are skipped.
 */
export function describePostgresVersions(
  name: string,
  tests: (source?: PostgresSource) => void,
): void {
  const sources = ofThisRun([inject('postgresSource')], inject('postgresVersions') ?? [])
  for (const source of sources.length > 0 ? sources : [undefined]) {
    describe.skipIf(source === undefined)(`${name}, ${source?.version}`, () => {
      versionOfSuite = source
      tests(source)
      versionOfSuite = undefined
    })
  }
}

/** A cluster for the tests of the surrounding `describePostgres`, started before the first. */
export function postgresOfFile(options: PostgresOptions = {}): () => PostgresServer {
  let server: PostgresServer | undefined
  const source = options.source ?? versionOfSuite
  beforeAll(async () => {
    server = await startPostgres(source === undefined ? options : { ...options, source })
  })
  afterAll(() => server?.stop())
  return () => {
    if (server === undefined) throw new Error('the cluster starts before the first test')
    return server
  }
}

/** Starts an empty cluster. Resolves when it accepts connections. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const source = options.source ?? inject('postgresSource')
  if (source === undefined) throw new Error('There is no PostgreSQL; use describePostgres')
  const folder = await dataFolder()
  const init = ['-D', folder, '-U', 'postgres', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C']
  try {
    await run(source, 'initdb', init, folder)
    return await launch(source, folder, options)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

async function launch(
  source: PostgresSource,
  folder: string,
  options: PostgresOptions,
): Promise<PostgresServer> {
  const server = new Cluster(source, folder, await freePort(), options)
  try {
    await server.restart()
  } catch (error) {
    await server.stop()
    throw error
  }
  return server
}

const LOG = 'server.log'

/** PostgreSQL refuses to run as root, so that root runs it as Debian's user, or as `nobody`. */
export const OWNER: { readonly uid?: number; readonly gid?: number } = ownerOfServers()

function ownerOfServers(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const found = users.find(([name]) => name === 'postgres') ?? users.find(([n]) => n === 'nobody')
  if (found === undefined) throw new Error('root needs a user `postgres` or `nobody`')
  return { uid: Number(found[2]), gid: Number(found[3]) }
}

async function dataFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'stampede-postgres-'))
  if (OWNER.uid !== undefined) await chown(folder, OWNER.uid, OWNER.gid ?? OWNER.uid)
  return folder
}

/** Runs a program of PostgreSQL, and resolves with its output. */
async function run(source: PostgresSource, program: string, args: string[], folder: string) {
  const options = { ...OWNER, cwd: folder, maxBuffer: 64 * 1024 * 1024 }
  return (await promisify(execFile)(join(source.bin, program), args, options)).stdout
}

class Cluster implements PostgresStandby {
  readonly host = '127.0.0.1'
  readonly port: number
  readonly url: string
  readonly folder: string
  readonly source: PostgresSource
  readonly #options: PostgresOptions
  readonly #standbys: PostgresServer[] = []
  /** Its processes, while it is frozen, with the end of their guards. */
  readonly #frozen = new Map<number, () => void>()
  #child: ChildProcess | undefined

  constructor(source: PostgresSource, folder: string, port: number, options: PostgresOptions) {
    this.source = source
    this.folder = folder
    this.port = port
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`
    this.#options = options
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  async query<T = Row>(text: string, values: readonly unknown[] = []): Promise<T[]> {
    const client = new pg.Client({ connectionString: this.url, application_name: 'harness' })
    // A server that is killed meanwhile rejects the query. The event tells nothing more.
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(text, [...values])).rows as T[]
    } finally {
      await client.end().catch(() => {})
    }
  }

  async connections(): Promise<number> {
    const [row] = await this.query<{ count: number }>(
      `select count(*)::int as count from pg_stat_activity
       where backend_type = 'client backend' and application_name <> 'harness'`,
    )
    return row?.count ?? 0
  }

  async pause(): Promise<void> {
    for (const pid of [this.pid, ...(await childrenOf(this.pid))]) {
      // A frozen process does not notice the death of the postmaster.
      if (pid !== this.pid) this.#frozen.set(pid, guard(pid))
      signal(pid, 'SIGSTOP')
    }
  }

  async resume(): Promise<void> {
    signal(this.pid, 'SIGCONT')
    for (const [pid, release] of this.#frozen) {
      signal(pid, 'SIGCONT')
      release()
    }
    this.#frozen.clear()
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined || !this.isRunning()) return
    const exited = once(child, 'exit')
    signal(this.pid, 'SIGKILL')
    await exited
    await this.resume()
  }

  async restart(): Promise<void> {
    await this.kill()
    // As long as a process of the killed server is alive, a start fails for its shared memory.
    await waitUntil('PostgreSQL accepts connections', async () => {
      if (!this.isRunning()) await this.#start()
      const isUp = await this.accepts()
      if (!isUp && !this.isRunning() && !/still in use/.test(this.log()))
        throw new Error(`PostgreSQL does not run; its output:\n${this.log()}`)
      return isUp
    })
  }

  async startStandby(): Promise<PostgresStandby> {
    const folder = await dataFolder()
    const backup = ['-D', folder, '-h', this.host, '-p', String(this.port), '-U', 'postgres']
    backup.push('-R', '-X', 'stream', '-c', 'fast', '--no-sync')
    await run(this.source, 'pg_basebackup', backup, folder)
    const standby = await launch(this.source, folder, this.#options)
    this.#standbys.push(standby)
    await this.query(`alter system set synchronous_standby_names = '*'`)
    await this.query('select pg_reload_conf()')
    await waitUntil('the standby is synchronous', async () => {
      const rows = await this.query(
        `select 1 from pg_stat_replication where sync_state in ('sync', 'quorum')`,
      )
      return rows.length > 0
    })
    return standby as Cluster
  }

  async promote(): Promise<void> {
    await this.query('select pg_promote()')
  }

  async stop(): Promise<void> {
    for (const standby of this.#standbys.splice(0)) await standby.stop()
    const children = this.isRunning() ? await childrenOf(this.pid) : []
    await this.kill()
    // They write into the folder until they notice that the postmaster is gone.
    await waitUntil('all processes of PostgreSQL have ended', () => !children.some(isAlive))
    await rm(this.folder, { recursive: true, force: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  log(): string {
    return readFileSync(join(this.folder, LOG), 'utf8')
  }

  async commitsOf(work: () => Promise<unknown>): Promise<number> {
    await this.#flushLog()
    const from = await this.#logEnd()
    await work()
    const to = await this.#logEnd()
    if (from === to) return 0
    await this.#flushLog()
    const range = ['-p', join(this.folder, 'pg_wal'), '-s', from, '-e', to, '-r', 'Transaction']
    const text = await run(this.source, 'pg_waldump', range, this.folder)
    return text.split('\n').filter((line) => /desc: COMMIT/.test(line)).length
  }

  /** The commit of a notice alone does not wait for the disk, so its place is not known before. */
  async #flushLog(): Promise<void> {
    await this.query(`select pg_logical_emit_message(true, 'harness', '')`)
  }

  async #logEnd(): Promise<string> {
    const [row] = await this.query<{ lsn: string }>('select pg_current_wal_insert_lsn() as lsn')
    return row?.lsn ?? ''
  }

  accepts(): Promise<boolean> {
    return this.query('select 1').then(
      () => true,
      () => false,
    )
  }

  isRunning(): boolean {
    return this.#child?.exitCode === null && this.#child.signalCode === null
  }

  async #start(): Promise<void> {
    const { settings = {}, fsync = false, env = {} } = this.#options
    const all = {
      port: this.port,
      listen_addresses: this.host,
      // Sockets of several clusters would meet in one folder.
      unix_socket_directories: '',
      fsync: fsync ? 'on' : 'off',
      shared_buffers: '32MB',
      ...settings,
    }
    const args = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    // A file, because the server's processes would keep a pipe open after the postmaster's end.
    const log = await open(join(this.folder, LOG), 'w')
    const child = spawn(join(this.source.bin, 'postgres'), ['-D', this.folder, ...args], {
      ...OWNER,
      // A locale of the machine may be unknown to PostgreSQL.
      env: { ...process.env, LC_ALL: 'C', ...env },
      stdio: ['ignore', log.fd, log.fd],
    })
    this.#child = child
    await once(child, 'spawn').finally(() => log.close())
    if (child.pid !== undefined) child.once('exit', guard(child.pid))
  }
}

/** Kills one server process, as the kernel does without memory. PostgreSQL restarts all of them. */
export function killBackend(pid: number): void {
  signal(pid, 'SIGKILL')
}

async function childrenOf(pid: number): Promise<number[]> {
  // It exits with 1 if there are none.
  const none = { stdout: '' }
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(pid)]).catch(() => none)
  return stdout.split('\n').filter(Boolean).map(Number)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
