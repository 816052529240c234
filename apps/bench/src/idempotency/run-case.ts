// Runs one case of one library with a Redis and servers of its own, and ends them.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { notSupported, type Verdict, wrong } from '../verdicts/verdict.ts'
import type { Case } from './cases/case.ts'
import type { Peer } from './peer.ts'
import { type PeerProcess, RunLog, startPeer } from './peer-process.ts'
import { type RedisProcess, startRedis } from './redis-process.ts'
import { createScene } from './scene.ts'

const CASE_MS = 25_000

export async function runCase(peer: Peer, each: Case): Promise<Verdict> {
  const left = peer.notSupported?.[each.id]
  if (left !== undefined) return notSupported(left)
  await using redis = await startRedis()
  const servers: PeerProcess[] = []
  try {
    return await inProcesses(peer, each, redis, servers)
  } finally {
    for (const server of servers) await server.kill()
  }
}

async function inProcesses(
  peer: Peer,
  each: Case,
  redis: RedisProcess,
  servers: PeerProcess[],
): Promise<Verdict> {
  const log = new RunLog()
  const another = async (): Promise<PeerProcess> => {
    const started = await startPeer(peer, redis.url, log)
    servers.push(started)
    return started
  }

  const server = await another()
  const scene = createScene(peer, randomUUID(), redis, server, log, another)
  const timeoutMs = each.timeoutMs ?? CASE_MS
  const verdict = await Promise.race([
    each.run(scene).catch((error: Error) => wrong(`the case failed: ${error.message}`)),
    sleep(timeoutMs, wrong(`the case was not over in ${timeoutMs / 1_000} s`), { ref: false }),
  ])
  if (!server.crashed) return verdict
  console.error(server.lastErrors())
  const said = verdict.kind === 'wrong' ? verdict.fact : ''
  return said.includes('crashed') ? verdict : wrong(`${said && `${said}; `}the server crashed`)
}
