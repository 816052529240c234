// Runs one case with one cache, with a Redis and a process of its own, and ends them.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startRedis } from '../torture/redis-server.ts'
import { notSupported, type Verdict, wrong } from '../verdicts/verdict.ts'
import type { Case } from './case.ts'
import type { Peer } from './peer.ts'

const CELL = fileURLToPath(new URL('./cell.js', import.meta.url))
/** No case should take this long. */
const HARD_LIMIT_MS = 30_000

export async function runCell(peer: Peer, { id }: Case): Promise<Verdict> {
  const left = peer.notSupported?.[id]
  if (left !== undefined) return notSupported(left)
  await using redis = await startRedis()
  const args = [peer.id, id, String(redis.port), String(redis.pid)]
  const env = { ...process.env, NODE_ENV: 'production' }
  const child = fork(CELL, args, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env })
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  try {
    return await Promise.race([
      once(child, 'message').then(([verdict]) => verdict as Verdict),
      once(child, 'exit').then(() => wrong('the process died')),
      sleep(HARD_LIMIT_MS, wrong('the case did not end'), { ref: false }),
    ])
  } finally {
    process.off('exit', atExit)
    child.kill('SIGKILL')
  }
}
