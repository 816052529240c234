// Runs a program of servers/ that measures its own memory.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Ends after 20 minutes at the latest. Returns the JSON that the program prints. */
export async function measured<T>(program: string, env: NodeJS.ProcessEnv = {}): Promise<T> {
  const script = fileURLToPath(new URL(`servers/${program}`, import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script], {
    env: { ...process.env, NODE_OPTIONS: '', ...env },
    timeout: 1_190_000,
    killSignal: 'SIGKILL',
  })
  return JSON.parse(stdout)
}
