// `stampede doctor` against real servers: healthy, evicting, old, frozen, skewed, without rights.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callsOf } from '../../packages/cli/src/doctor/rights.ts'
import { commandLine, program } from '../harness/command-line.ts'
import { DOCUMENTED } from '../harness/documented-permissions.ts'
import { startMovableRedis, whyClockStandsStill } from '../harness/movable-redis.ts'
import { startRedisCluster } from '../harness/redis-cluster.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startSentinels } from '../harness/redis-sentinel.ts'
import { startRedis } from '../harness/redis-server.ts'
import { startProxy } from '../harness/tcp-proxy.ts'

const { server, admin } = await redisOfFile()
const why = await whyClockStandsStill()

/** The findings that are not `OK`, as printed. A busy machine may cause that of the latency. */
const problems = (out: string): string[] =>
  out.split('\n').filter((line) => line !== '' && !/^OK|^WARN {2}latency/.test(line))

describe('doctor', () => {
  it('finds nothing on a server as it should be, and leaves no key for long', async () => {
    await admin.config('SET', 'appendonly', 'yes')
    try {
      const { code, out } = await commandLine(server.url)('doctor', '--timeout', '30000')
      expect(problems(out)).toEqual([])
      expect(code).toBe(0)
      for (const check of ['commands', 'messages', 'cache', 'locks', 'idempotency']) {
        expect(out).toMatch(new RegExp(`^OK +${check} `, 'm'))
      }
    } finally {
      await admin.config('SET', 'appendonly', 'no')
    }
    for (const key of await admin.keys('*')) {
      if (!key.includes('{purges}')) expect(await admin.pttl(key), key).toBeLessThan(70_000)
    }
  })

  it('warns of a policy that evicts, in one line with the fix and exit code 0', async () => {
    const args = ['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru', '--appendonly', 'yes']
    await using evicting = await startRedis({ args })
    const { code, out } = await commandLine(evicting.url)('doctor', '--timeout', '30000')
    expect(problems(out)).toEqual([
      expect.stringMatching(
        /^WARN {2}eviction .*allkeys-lru.*Fix: set maxmemory-policy noeviction/,
      ),
    ])
    expect(code).toBe(0)
  })

  it('fails on a server that is too old', async () => {
    const proxy = await startRewriting(server.port, 'redis_version:7.0.15', 'redis_version:6.0.16')
    try {
      const { code, out } = await commandLine(proxy.url)('doctor', '--timeout', '30000')
      expect(out).toMatch(
        /^FAIL {2}server +Redis 6\.0\.16 is too old\. Fix: upgrade to Redis 6\.2/m,
      )
      expect(code).toBe(1)
    } finally {
      proxy.close()
    }
  })

  it('ends within the timeout on a frozen server, and says so', async () => {
    await using frozen = await startRedis()
    await frozen.pause()
    const { code, out } = await program(frozen.url)('doctor', '--timeout', '1500')
    expect(problems(out)).toEqual([
      expect.stringMatching(
        /^FAIL {2}connection .*accepts connections, but did not reply within 1200 ms\. Fix: the server is frozen/,
      ),
    ])
    expect(code).toBe(3)
  })

  it.skipIf(why !== undefined)('warns of a clock that is wrong', async () => {
    await using skewed = await startMovableRedis()
    await skewed.setClockBy(90_000)
    const { code, out } = await commandLine(skewed.url)('doctor', '--timeout', '30000')
    expect(out).toMatch(/^WARN {2}clock +the server’s clock is 1 min 30 s ahead .*Fix: run an NTP/m)
    expect(code).toBe(0)
    await skewed.setClockBy(-90_000)
    const behind = await commandLine(skewed.url)('doctor', '--json', '--timeout', '30000')
    const { findings } = JSON.parse(behind.out)
    expect(findings).toContainEqual(
      expect.objectContaining({ level: 'warn', check: 'clock', message: expect.any(String) }),
    )
  })

  it('warns of a slow connection', async () => {
    await using proxy = await startProxy(server.port)
    proxy.delay(50)
    const { out } = await commandLine(proxy.url)('doctor', '--timeout', '30000')
    expect(out).toMatch(/^WARN {2}latency +p50 1\d\d\.\d ms, .*Fix: raise commandTimeoutMs/m)
  })

  it('fails on a replica, and names the master', async () => {
    // Otherwise a master waits some seconds for more replicas before it sends its data.
    await admin.config('SET', 'repl-diskless-sync-delay', '0')
    await using replica = await startRedis({ args: ['--replicaof', server.host, `${server.port}`] })
    const client = new Redis(replica.url)
    const replication = () => client.info('replication')
    await expect.poll(replication, { timeout: 20_000 }).toContain('master_link_status:up')
    client.disconnect()
    const { code, out } = await commandLine(replica.url)('doctor', '--timeout', '30000')
    expect(out).toMatch(
      new RegExp(`^FAIL {2}role .*use the master ${server.host}:${server.port}`, 'm'),
    )
    expect(code).toBe(1)
    const master = await commandLine(server.url)('doctor', '--timeout', '30000')
    expect(master.out).toMatch(/^WARN {2}replication .*Fix: set min-replicas-to-write 1/m)
  })

  it('follows a Sentinel to the master, and recognises one that is taken for a server', async () => {
    await using bench = await startSentinels()
    const [sentinel] = bench.sentinels
    const run = commandLine(`redis://${sentinel?.host}:${sentinel?.port}`)
    const followed = await run('doctor', '--sentinel', 'stampede', '--timeout', '30000')
    expect(followed.out).toMatch(/^OK +role +master/m)
    expect(followed.out).toMatch(/^OK +cache/m)
    const { code, out } = await run('doctor', '--timeout', '30000')
    expect(out).toMatch(/^FAIL {2}mode .*Sentinel.*Fix: add --sentinel NAME/m)
    expect(code).toBe(1)
  })

  it('says that the server refuses connections', async () => {
    const { code, out } = await commandLine('redis://127.0.0.1:1')('doctor')
    expect(out).toMatch(/^FAIL {2}connection .*ECONNREFUSED.*Fix: check the address/m)
    expect(code).toBe(3)
  })

  it('shows the keyPrefix of the URL, and checks the keys and channels that begin with it', async () => {
    const trace = await server.traceCommands()
    const { out } = await commandLine(`${server.url}?keyPrefix=app:`)('doctor', '--prefix', 'shop')
    expect(out).toMatch(/^OK +keyPrefix .*begin with app:shop: \(keyPrefix app:, prefix shop\)/m)
    expect(out).toMatch(/^OK +commands/m)
    expect(out).toMatch(/^OK +channels .*app:shop:4:\*/m)
    expect(out).toMatch(/^OK +cache/m)
    const sent = (await trace.stop()).map(({ text }) => text).join('\n')
    expect(sent).not.toMatch(/app:app:|"shop:4:/)
  })

  it('checks each master of a cluster', async () => {
    await using cluster = await startRedisCluster({ masters: 3 })
    const [node] = cluster.nodes
    const { out } = await commandLine(node?.url ?? '')('doctor', '--timeout', '40000')
    expect(out.match(/^OK +mode .*Cluster/gm)).toHaveLength(3)
    expect(problems(out).filter((line) => !line.includes('persistence'))).toEqual([])
    expect(out).toMatch(/^OK +cache/m)
  })
})

describe('a user without rights', () => {
  const as = (...rules: string[]) => {
    const url = server.url.replace('redis://', 'redis://op:pw@')
    return admin
      .call('ACL', 'SETUSER', 'op', 'reset', 'on', '>pw', '~*', '&*', '+@all', ...rules)
      .then(() => commandLine(url)('doctor', '--timeout', '30000'))
  }
  beforeAll(() => admin.flushall())
  afterAll(() => admin.call('ACL', 'DELUSER', 'op'))

  it('gets the names of all commands that are refused, with the rules that allow them', async () => {
    const { code, out } = await as('-xadd', '-zadd', '-evalsha')
    expect(out).toMatch(
      /^FAIL {2}commands .*may not run XADD, ZADD, EVALSHA\. Fix: .*\+xadd \+zadd \+evalsha/m,
    )
    expect(out).toMatch(/^FAIL {2}cache /m)
    expect(code).toBe(1)
  })

  it('gets the pattern of the keys that are refused', async () => {
    const { out } = await as('resetkeys', '~other:*')
    expect(out).toMatch(/^FAIL {2}keys .*stampede:4:\*\. Fix: ACL SETUSER … ~stampede:4:\*/m)
  })

  it('gets the pattern of the channels that are refused', async () => {
    const { out } = await as('resetchannels')
    expect(out).toMatch(
      /^FAIL {2}channels .*PUBLISH or SUBSCRIBE .*Fix: ACL SETUSER … &stampede:4:\*/m,
    )
  })

  it('hears that INFO and SCAN are refused', async () => {
    const { out } = await as('-info', '-scan')
    expect(out).toMatch(/^WARN {2}server .*INFO.*Fix: ACL SETUSER … \+info/m)
    expect(out).toMatch(/^WARN {2}scan .*SCAN.*Fix: ACL SETUSER … \+scan/m)
  })

  it('hears that the password is wrong', async () => {
    const url = server.url.replace('redis://', 'redis://op:wrong@')
    const { code, out } = await commandLine(url)('doctor')
    expect(out).toMatch(/^FAIL {2}connection .*WRONGPASS/m)
    expect(code).toBe(3)
  })
})

describe('the calls of the doctor', () => {
  it('try exactly the commands in docs/guide/redis-topologies.md', () => {
    const tried = callsOf('root').map(([command]) => command)
    const elsewhere = ['SUBSCRIBE', 'PUBLISH', 'INFO', 'SCAN', 'CLUSTER|SLOTS', 'CLUSTER|INFO']
    const all = new Set([...tried, ...elsewhere, 'ASKING'])
    expect([...all].sort()).toEqual([...DOCUMENTED].sort())
  })
})

/** A proxy before a server that replaces a text in its replies by one of the same length. */
async function startRewriting(port: number, from: string, to: string) {
  const proxy = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    client.pipe(upstream)
    upstream.on('data', (data) => {
      client.write(Buffer.from(data.toString('latin1').replace(from, to), 'latin1'))
    })
    for (const socket of [client, upstream]) {
      socket.on('error', () => {})
      socket.on('close', () => [client, upstream].map((each) => each.destroy()))
    }
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port: own } = proxy.address() as AddressInfo
  return { url: `redis://127.0.0.1:${own}`, close: () => proxy.close() }
}
