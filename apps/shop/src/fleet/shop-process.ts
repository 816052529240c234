// One shop process of the fleet, as seen by the parent. It is started, killed, frozen and resumed
// here, and its messages arrive here.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Database } from '../database.ts'
import type { OriginRuns } from '../origin-runs.ts'
import { createDatabaseHost } from './database-host.ts'
import type { FromProcess, ProcessEvent, ToProcess } from './messages.ts'
import { fromSent } from './sent-error.ts'
import { signal, type Watchdog } from './watchdog.ts'

export type ProcessState = 'starting' | 'up' | 'frozen' | 'down'

export interface ShopProcess {
  /** 1, 2, 3, ... A process that is started again keeps its number. */
  readonly number: number
  readonly state: ProcessState
  readonly pid: number | undefined
  /** Undefined until the process accepts requests. */
  readonly port: number | undefined
  /** Resolves when the process accepts requests. Rejects if it ends before. */
  ready(): Promise<void>
  /** SIGKILL: the process ends in the middle of its work. It is started again. */
  kill(): Promise<void>
  /** SIGSTOP: the process does nothing, like a suspended machine. */
  freeze(): void
  /** SIGCONT: the process goes on as if no time had passed. */
  resume(): void
  /** Purges a path in the cache of this process, and through Redis in the whole fleet. */
  purge(path: string): Promise<void>
  /** SIGTERM: the process finishes its requests and ends. */
  stop(): Promise<void>
}

export interface ProcessSurroundings {
  readonly database: Promise<Database>
  readonly originRuns: OriginRuns
  readonly watchdog: Watchdog
  readonly env: NodeJS.ProcessEnv
  onEvents(from: ShopProcess, events: readonly ProcessEvent[]): void
  onOriginRun(from: ShopProcess, runId: string | null): void
  onState(from: ShopProcess): void
}

/** Pause before a process is started again. It doubles while the process cannot start. */
const RESTART_MS = 300
const MOST_DOUBLINGS = 5

export function startShopProcess(number: number, around: ProcessSurroundings): ShopProcess {
  let life = startLife()
  let state: ProcessState = 'starting'
  let stopping = false
  let failedStarts = 0
  const purges = new Map<number, (message: Extract<FromProcess, { type: 'purged' }>) => void>()

  const enter = (next: ProcessState) => {
    state = next
    around.onState(shopProcess)
  }

  function startLife() {
    const child = fork(process.argv[1] ?? '', [], {
      env: { ...around.env, SHOP_PROCESS: String(number) },
      // Keeps dates and undefined in messages.
      serialization: 'advanced',
    })
    const ended = once(child, 'exit').then(() => {})
    if (child.pid !== undefined) void ended.then(around.watchdog.guard(child.pid))
    let port: number | undefined
    const ready = new Promise<void>((resolve, reject) => {
      child.on('message', (message: FromProcess) => {
        if (message.type === 'ready') {
          port = message.port
          failedStarts = 0
          enter('up')
          resolve()
        } else receive(message)
      })
      void ended.then(() => reject(new Error(`process ${number} ended before it was ready`)))
    })
    // A later failure to start is a process that is down. Only `ready()` reports it.
    ready.catch(() => {})
    const host = createDatabaseHost(around.database, (message) => sendTo(child, message))
    const receive = (message: Exclude<FromProcess, { type: 'ready' }>) => {
      if (message.type === 'database') void host.handle(message.id, message.request)
      else if (message.type === 'events') around.onEvents(shopProcess, message.events)
      else if (message.type === 'purged') purges.get(message.id)?.(message)
      else {
        around.originRuns.record(message.route, message.runId)
        around.onOriginRun(shopProcess, message.runId)
      }
    }
    void ended.then(() => {
      host.close()
      if (stopping) return
      enter('down')
      setTimeout(restart, RESTART_MS * 2 ** Math.min(failedStarts++, MOST_DOUBLINGS))
    })
    return { child, ended, ready, port: () => port }
  }

  function restart(): void {
    if (stopping) return
    state = 'starting'
    life = startLife()
  }

  const send = (name: NodeJS.Signals) => {
    const { pid, exitCode, signalCode } = life.child
    if (pid !== undefined && exitCode === null && signalCode === null) signal(pid, name)
  }

  const shopProcess: ShopProcess = {
    number,
    get state() {
      return state
    },
    get pid() {
      return life.child.pid
    },
    get port() {
      return life.port()
    },
    ready: () => life.ready,
    async kill() {
      // Its requests are sent again at once, and must not go to it.
      enter('down')
      send('SIGKILL')
      await life.ended
    },
    freeze() {
      send('SIGSTOP')
      enter('frozen')
    },
    resume() {
      send('SIGCONT')
      if (state === 'frozen') enter('up')
    },
    purge: (path) =>
      new Promise((resolve, reject) => {
        const id = performance.now()
        purges.set(id, ({ error }) => {
          purges.delete(id)
          if (error === undefined) resolve()
          else reject(fromSent(error))
        })
        sendTo(life.child, { type: 'purge', id, path })
      }),
    async stop() {
      stopping = true
      send('SIGTERM')
      // A frozen process handles SIGTERM only after SIGCONT.
      send('SIGCONT')
      await life.ended
    },
  }
  return shopProcess
}

/** Messages to a process that has ended are lost, as on a network. */
function sendTo(child: ChildProcess, message: ToProcess): void {
  if (child.connected) child.send(message, () => {})
}
