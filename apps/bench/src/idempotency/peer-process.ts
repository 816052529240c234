// One server process of a peer, as the test sees it: started, killed, frozen, and its runs.
import { type ChildProcess, fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Peer } from './peer.ts'
import type { Go, Told } from './runs.ts'

const SERVE = fileURLToPath(new URL('./serve.js', import.meta.url))
const START_MS = 20_000

export interface RunSeen {
  readonly scene: string
  readonly id: string
}

export interface PeerProcess {
  readonly port: number
  /** Whether it is still there, unless the test killed it. */
  readonly crashed: boolean
  /** The last lines it wrote about errors. */
  readonly lastWords: () => string
  /** Lets runs of this scene pass the gate. */
  readonly go: (scene: string) => void
  readonly freeze: () => void
  readonly thaw: () => void
  /** SIGKILL, as a crash or the kernel would. */
  readonly kill: () => Promise<void>
}

/** Whoever runs in whichever process; emits `run` with a `RunSeen`. */
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
  let words = ''
  let killed = false
  child.stderr?.on('data', (chunk) => {
    words = (words + chunk).slice(-4_000)
  })
  child.on('message', (told: Told) => {
    if (told.type !== 'run') return
    log.seen.push(told)
    log.emit('run', told)
  })
  // Also one that is frozen, which would not notice that the test is gone.
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  child.once('exit', () => process.off('exit', atExit))
  const kill = async () => {
    killed = true
    if (gone(child)) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const port = await listening(child, () => words)
  return {
    port,
    get crashed() {
      return !killed && gone(child)
    },
    lastWords: () => words,
    go: (scene) => child.send({ type: 'go', scene } satisfies Go),
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    kill,
  }
}

const gone = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null

function listening(child: ChildProcess, words: () => string): Promise<number> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`the server did not start in ${START_MS} ms: ${words()}`))
    }, START_MS)
    child.once('exit', () => {
      clearTimeout(late)
      reject(new Error(`the server ended at its start: ${words()}`))
    })
    child.on('message', (told: Told) => {
      if (told.type !== 'listening') return
      clearTimeout(late)
      resolve(told.port)
    })
  })
}
