// A PostgreSQL server of its own, and the CPU time of its processes.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { listen } from './http.ts'

export interface PostgresServer extends AsyncDisposable {
  readonly url: string
  readonly version: string
  readonly query: (text: string) => Promise<unknown[]>
  /** CPU time of all processes of the server since their start. */
  readonly cpuMicros: () => number
}

const DEBIAN = '/usr/lib/postgresql'
/** `getconf CLK_TCK` on Linux: the unit of `/proc/PID/stat`. */
const TICK_MICROS = 10_000
const STARTED_WITHIN_MS = 30_000

/** Commits wait for the disk, as in production. */
export async function startPostgres(): Promise<PostgresServer> {
  const bin = folderOfPrograms()
  const owner = ownerOfServers()
  const folder = mkdtempSync(join(tmpdir(), 'stampede-bench-'))
  if (owner) chownSync(folder, owner.uid, owner.gid)
  const init = ['-D', folder, '-U', 'postgres', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C']
  execFileSync(join(bin, 'initdb'), init, { ...owner, cwd: folder, stdio: 'ignore' })
  const probe = createServer()
  const port = await listen(probe)
  probe.close()
  await once(probe, 'close')
  const args = ['-D', folder, '-c', `port=${port}`, '-c', 'listen_addresses=127.0.0.1']
  args.push('-c', 'unix_socket_directories=')
  const child = spawn(join(bin, 'postgres'), args, { ...owner, cwd: folder, stdio: 'ignore' })
  // SIGQUIT ends all its processes at once.
  const kill = () => child.kill('SIGQUIT')
  process.once('exit', kill)
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const query = async (text: string): Promise<unknown[]> => {
    const client = new pg.Client(url)
    client.on('error', () => {})
    await client.connect()
    return (await client.query(text).finally(() => client.end())).rows
  }
  const isUp = () =>
    query('select 1').then(
      () => true,
      () => false,
    )
  for (const since = performance.now(); !(await isUp()); await sleep(50)) {
    if (performance.now() - since > STARTED_WITHIN_MS) throw new Error('bench: no PostgreSQL')
  }
  return {
    url,
    version: execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).trim(),
    query,
    cpuMicros: () => cpuTicks(child.pid ?? 0) * TICK_MICROS,
    async [Symbol.asyncDispose]() {
      process.off('exit', kill)
      const exited = once(child, 'exit')
      kill()
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function folderOfPrograms(): string {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).map(Number) : []
  const folders = versions.sort((a, b) => b - a).map((version) => `${DEBIAN}/${version}/bin`)
  const all = [...(process.env.PATH ?? '').split(':'), ...folders]
  const found = all.find((folder) => existsSync(join(folder, 'initdb')))
  if (found === undefined) throw new Error('bench: no PostgreSQL; apt-get install postgresql')
  return found
}

/** PostgreSQL refuses to run as root. */
function ownerOfServers(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8').split('\n')
  const [, , uid, gid] = users.find((line) => line.startsWith('postgres:'))?.split(':') ?? []
  if (uid === undefined) throw new Error('bench: root needs a user named postgres')
  return { uid: Number(uid), gid: Number(gid) }
}

/** CPU time of the postmaster, of its processes that run, and of its processes that have ended. */
function cpuTicks(postmaster: number): number {
  let sum = 0
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      // The name of the program, in parentheses, may contain spaces.
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const fields = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .map(Number)
      // User and system time, and then those of its processes that have ended.
      const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15)
      if (Number(name) === postmaster) sum += user + system + endedUser + endedSystem
      else if (fields[1] === postmaster) sum += user + system
    } catch {
      // The process has ended meanwhile.
    }
  }
  return sum
}
