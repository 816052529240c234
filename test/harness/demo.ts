// A demo as a user starts it: a process of its own, with its output.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { guard } from './guard.ts'
import { waitUntil } from './wait-until.ts'

/** Opening the database takes a second of CPU time, and more on a busy machine. */
const START_MS = 90_000

export interface Demo {
  readonly child: ChildProcess
  readonly url: string
  /** The complete output. */
  readonly output: () => string
  /** Resolves when the shop accepts requests. Ends the demo if that takes too long. */
  ready(): Promise<void>
  /** Sends SIGTERM. Resolves with the exit code. */
  stop(): Promise<{ code: number | null }>
}

export function startDemo(app: string, env: Record<string, string>): Demo {
  const main = fileURLToPath(new URL(`../../apps/${app}/dist/main.js`, import.meta.url))
  const child = spawn(process.execPath, [main], {
    env: { ...process.env, NODE_OPTIONS: '', REDIS_URL: '', FENCE: '', ...env },
  })
  if (child.pid !== undefined) child.once('exit', guard(child.pid))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => (output += chunk))
  }
  const closed = once(child, 'close')
  return {
    child,
    url: `http://127.0.0.1:${env.PORT}`,
    output: () => output,
    async ready() {
      try {
        await waitUntil('the address of the demo', () => output.includes('http://'), START_MS)
      } catch (error) {
        child.kill('SIGKILL')
        throw error
      }
    },
    async stop() {
      child.kill('SIGTERM')
      const [code] = await closed
      return { code }
    },
  }
}
