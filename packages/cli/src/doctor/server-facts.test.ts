import { expect, it } from 'vitest'
import { readInfo, serverFindings } from './server-facts.ts'

const HEALTHY = {
  redis_version: '7.2.0',
  redis_mode: 'standalone',
  role: 'master',
  connected_slaves: '0',
  maxmemory: '0',
  maxmemory_policy: 'noeviction',
  aof_enabled: '1',
}

const findings = (facts: Record<string, string>) =>
  serverFindings(
    readInfo(
      Object.entries({ ...HEALTHY, ...facts })
        .map(([name, value]) => `${name}:${value}\r\n`)
        .join(''),
    ),
  ).filter(({ level }) => level !== 'ok')

it('finds nothing on a healthy server', () => {
  expect(findings({})).toEqual([])
  expect(findings({ valkey_version: '8.0.1', redis_version: '7.2.4' })).toEqual([])
  expect(findings({ connected_slaves: '1', min_slaves_good_slaves: '1' })).toEqual([])
})

it.each([
  [{ redis_version: '6.0.16' }, 'fail', 'server', '6.0.16 is too old'],
  [{ redis_version: '5.0.14' }, 'fail', 'server', '5.0.14 is too old'],
  [{ redis_mode: 'sentinel' }, 'fail', 'mode', 'a Sentinel'],
  [{ role: 'slave', master_host: 'm', master_port: '1' }, 'fail', 'role', 'a replica'],
  [{ connected_slaves: '2' }, 'warn', 'replication', '2 replicas'],
  [{ maxmemory: '1000', maxmemory_policy: 'volatile-lru' }, 'warn', 'eviction', 'volatile-lru'],
  [{ maxmemory: '1000', used_memory: '950' }, 'warn', 'memory', '950 B of 1000 B'],
  [{ aof_enabled: '0' }, 'warn', 'persistence', 'appendonly is off'],
])('reports a problem and its fix for a server with %j', (facts, level, check, message) => {
  expect(findings(facts as Record<string, string>)).toEqual([
    { level, check, message: expect.stringContaining(message), fix: expect.stringMatching(/\w/) },
  ])
})
