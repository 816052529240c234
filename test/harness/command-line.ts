// Runs `stampede` for tests: in this process, or with `program` as a user does, in a process of its
// own. A process costs about a second, so `program` is for tests of its start, its exit code and
// its end.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { run } from '../../packages/cli/src/run.ts'
import { Terminal } from '../../packages/cli/src/terminal.ts'

const MAIN = fileURLToPath(new URL('../../packages/cli/bin/stampede.js', import.meta.url))

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

export type Run = (...args: string[]) => Promise<Ran>
type Env = Readonly<Record<string, string>>

export function commandLine(url: string, env: Env = {}): Run {
  return async (...args) => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()]
    const shown = Promise.all([text(stdout), text(stderr)])
    const streams = { stdin: Readable.from([]), stdout, stderr, env: { REDIS_URL: url, ...env } }
    const code = await run(args, new Terminal(streams))
    for (const stream of [stdout, stderr]) stream.end()
    const [out, err] = await shown
    return { code, out, err }
  }
}

/** The program of the package, as it was built. */
export function program(url: string, env: Env = {}): Run {
  return async (...args) => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH ?? '', REDIS_URL: url, ...env },
    })
    const [[code], out, err] = await Promise.all([
      once(child, 'exit'),
      text(child.stdout),
      text(child.stderr),
    ])
    return { code: Number(code), out, err }
  }
}
