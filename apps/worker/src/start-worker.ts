// Starts the worker processes, and can kill, stop, pause or resume them.

import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Port } from './calls.ts'

export interface WorkerProcess {
  readonly name: string
  readonly port: Port
  /** Resolves when the process has ended. */
  readonly exited: Promise<void>
  /** SIGKILL: the process ends in the middle of its work. */
  kill(): void
  /** SIGTERM: the process finishes its current job and ends. */
  stop(): void
  /** SIGSTOP: the process does nothing, like a suspended machine. */
  pause(): void
  /** SIGCONT: the process goes on as if no time had passed. */
  resume(): void
}

export type WorkerEnvironment = {
  readonly WORKER_NAME: string
  /** Empty: the coordinator has the locks. */
  readonly REDIS_URL: string
  /** Prefix of every key in Redis. */
  readonly LOCK_PREFIX: string
  readonly LEASE_MS: string
  readonly FENCE: 'on' | 'off'
}

export function startWorker(env: WorkerEnvironment): WorkerProcess {
  const child = fork(fileURLToPath(new URL('./worker-process.js', import.meta.url)), {
    env: { ...process.env, ...env },
    // Keeps bigint and undefined in messages.
    serialization: 'advanced',
  })
  return {
    name: env.WORKER_NAME,
    port: portOf(child),
    exited: new Promise((resolve) => child.once('close', () => resolve())),
    kill: () => void child.kill('SIGKILL'),
    stop() {
      child.kill('SIGTERM')
      // A paused process handles SIGTERM only after SIGCONT.
      child.kill('SIGCONT')
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  }
}

/** Messages to a process that has ended are lost, as on a network. */
function portOf(child: ChildProcess): Port {
  return {
    send: (message) => void (child.connected && child.send(message as object, () => {})),
    onMessage: (listener) => void child.on('message', listener),
  }
}
