// Runs the simulation or the fuzzer in a process of its own, on the sources as they are or with a
// mutation.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Edit } from '../fuzz/leaks/mutation.ts'

const LAUNCH = join(process.cwd(), 'test', 'fuzz', 'leaks', 'launch.mjs')

/** The output. The exit status is 1 if a rule was broken. `script` is relative to the fuzzer. */
export async function launched(
  args: readonly string[],
  edits: readonly Edit[],
  script = '../../simulation/main.ts',
): Promise<string> {
  const env = { ...process.env, STAMPEDE_MUTATION: JSON.stringify({ edits }) }
  const command = [LAUNCH, script, ...args]
  const run = promisify(execFile)(process.execPath, command, { env })
  const { stdout } = await run.catch((error: { stdout: string }) => error)
  return stdout.trim()
}

/** With `--report`: the last line, parsed. */
export async function reported<T>(
  args: readonly string[],
  edits: readonly Edit[],
  script?: string,
): Promise<T> {
  const stdout = await launched([...args, '--report'], edits, script)
  const line = stdout.split('\n').at(-1) ?? ''
  if (!line.startsWith('{')) {
    throw new Error(`did not run: ${args.join(' ')} ${JSON.stringify(edits)}: ${stdout}`)
  }
  return JSON.parse(line)
}
