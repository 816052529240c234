// Runs one scenario with one cache, with a Redis and a process of its own, and ends them.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Peer } from './peer.ts'
import { startRedis } from './redis-server.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { decide, notTested, short, type Verdict } from './verdict.ts'

const CELL = fileURLToPath(new URL('./cell.js', import.meta.url))
/** No scenario should take this long. */
const HARD_LIMIT_MS = 30_000

export async function runCell(peer: Peer, scenario: Scenario): Promise<Verdict> {
  const left = peer.notSupported?.[scenario.id]
  if (left !== undefined) return notTested(left)
  await using redis = await startRedis()
  const args = [peer.id, scenario.id, String(redis.port), String(redis.pid)]
  const child = fork(CELL, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  try {
    return await verdictOf(child)
  } finally {
    process.off('exit', atExit)
    child.kill('SIGKILL')
  }
}

async function verdictOf(child: ChildProcess): Promise<Verdict> {
  let errors = ''
  child.stderr?.on('data', (chunk) => {
    errors = (errors + chunk).slice(-4_000)
  })
  const judged = once(child, 'message').then(([verdict]) => verdict as Verdict)
  const died = once(child, 'exit').then(() =>
    decide([false], `The process died: ${lastError(errors)}.`),
  )
  const late = sleep(HARD_LIMIT_MS, undefined, { ref: false }).then(() =>
    decide([false], `The scenario was not over in ${HARD_LIMIT_MS / 1_000} s.`),
  )
  return Promise.race([judged, died, late])
}

const lastError = (errors: string): string =>
  short(errors.split('\n').find((line) => /^\w*Error\b/.test(line)) ?? errors)
