// The worker processes, and what may happen to a process: it is killed, it is stopped, it goes on.

import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Port } from './calls.ts'

export interface Member {
  readonly name: string
  readonly port: Port
  /** Resolves when the process is gone. */
  readonly exited: Promise<void>
  /** SIGKILL: it ends here, in the middle of whatever it does. */
  kill(): void
  /** SIGTERM: it finishes what it has at hand, and ends. */
  stop(): void
  /** SIGSTOP: it does nothing and hears nothing, like a machine that is suspended. */
  pause(): void
  /** SIGCONT: it goes on as if no time had passed. */
  resume(): void
}

export type WorkerEnvironment = {
  readonly WORKER_NAME: string
  /** Empty: the locks are the coordinator's. */
  readonly REDIS_URL: string
  /** First part of every key in Redis. */
  readonly LOCK_PREFIX: string
  readonly LEASE_MS: string
  readonly FENCE: 'on' | 'off'
}

export function startMember(env: WorkerEnvironment): Member {
  const child = fork(fileURLToPath(new URL('./worker-process.js', import.meta.url)), {
    env: { ...process.env, ...env },
    // bigint and undefined go through as they are.
    serialization: 'advanced',
  })
  return {
    name: env.WORKER_NAME,
    port: portOf(child),
    exited: new Promise((resolve) => child.once('close', () => resolve())),
    kill: () => void child.kill('SIGKILL'),
    stop() {
      child.kill('SIGTERM')
      // Of a process that is stopped nothing else would be heard.
      child.kill('SIGCONT')
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  }
}

/** What is said to a process that is gone is lost, as it would be on a network. */
function portOf(child: ChildProcess): Port {
  return {
    send: (message) => void (child.connected && child.send(message as object, () => {})),
    onMessage: (listener) => void child.on('message', listener),
  }
}
