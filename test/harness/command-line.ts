// Runs the program `stampede` as a user does: the program of the package, in a process of its own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../packages/cli/bin/stampede.js', import.meta.url))

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
  readonly tookMs: number
}

export type Run = (...args: string[]) => Promise<Ran>

export function commandLine(url: string, env: Readonly<Record<string, string>> = {}): Run {
  return async (...args) => {
    const startedAt = performance.now()
    const child = spawn(process.execPath, [MAIN, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH ?? '', REDIS_URL: url, ...env },
    })
    const [[code], out, err] = await Promise.all([
      once(child, 'exit'),
      text(child.stdout),
      text(child.stderr),
    ])
    return { code: Number(code), out, err, tookMs: performance.now() - startedAt }
  }
}
