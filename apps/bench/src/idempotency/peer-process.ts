// One server process of a library, as a test uses it: started, killed, frozen, with its runs.
import { type ChildProcess, fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Peer } from './peer.ts'
import type { Go, ServerMessage } from './runs.ts'

const SERVE = fileURLToPath(new URL('./serve.js', import.meta.url))
const START_MS = 20_000

export interface RunSeen {
  readonly scene: string
  readonly id: string
}

export interface PeerProcess {
  readonly port: number
  /** True if the process has ended and the test did not kill it. */
  readonly crashed: boolean
  /** The last lines that the process wrote about errors. */
  readonly lastErrors: () => string
  /** Lets the runs of this scene go on that wait at the gate. */
  readonly go: (scene: string) => void
  readonly freeze: () => void
  readonly thaw: () => void
  /** Sends SIGKILL, like a crash or the kernel. */
  readonly kill: () => Promise<void>
}

/** All runs in all processes of a case. Emits `run` with a `RunSeen`. */
export class RunLog extends EventEmitter {
  readonly seen: RunSeen[] = []

  of(scene: string): RunSeen[] {
    return this.seen.filter((run) => run.scene === scene)
  }

  async nth(scene: string, n: number, withinMs = 5_000): Promise<RunSeen> {
    const signal = AbortSignal.timeout(withinMs)
    for (;;) {
      const run = this.of(scene)[n - 1]
      if (run) return run
      await once(this, 'run', { signal })
    }
  }
}

export async function startPeer(peer: Peer, redisUrl: string, log: RunLog): Promise<PeerProcess> {
  const child = fork(SERVE, [peer.id, redisUrl], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let errors = ''
  let killed = false
  child.stderr?.on('data', (chunk) => {
    errors = (errors + chunk).slice(-4_000)
  })
  child.on('message', (message: ServerMessage) => {
    if (message.type !== 'run') return
    log.seen.push(message)
    log.emit('run', message)
  })
  // SIGKILL also ends a frozen process, which cannot notice that the test has ended.
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  child.once('exit', () => process.off('exit', atExit))
  const kill = async () => {
    killed = true
    if (gone(child)) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const port = await listening(child, () => errors)
  return {
    port,
    get crashed() {
      return !killed && gone(child)
    },
    lastErrors: () => errors,
    go: (scene) => child.send({ type: 'go', scene } satisfies Go),
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    kill,
  }
}

const gone = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null

function listening(child: ChildProcess, errors: () => string): Promise<number> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`the server did not start in ${START_MS} ms: ${errors()}`))
    }, START_MS)
    child.once('exit', () => {
      clearTimeout(late)
      reject(new Error(`the server ended at its start: ${errors()}`))
    })
    child.on('message', (message: ServerMessage) => {
      if (message.type !== 'listening') return
      clearTimeout(late)
      resolve(message.port)
    })
  })
}
