// The worker demo as a user runs it: real processes, one killed and one paused, each job done
// exactly once.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { guard } from '../harness/guard.ts'
import { startRedis } from '../harness/redis-server.ts'

const MAIN = fileURLToPath(new URL('../../apps/worker/dist/main.js', import.meta.url))

async function demo(env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [MAIN], {
    env: { ...process.env, NODE_OPTIONS: '', REDIS_URL: '', FENCE: '', ...env },
  })
  if (child.pid !== undefined) child.once('exit', guard(child.pid))
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (chunk) => (output += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk) => (errors += chunk))
  const [code] = await once(child, 'close')
  return { code, output, errors }
}

describe('the worker demo', { timeout: 90_000 }, () => {
  it.each(['in memory', 'on Redis'])('does every job exactly once, %s', async (where) => {
    await using server = where === 'on Redis' ? await startRedis() : undefined
    const { code, output, errors } = await demo({ REDIS_URL: server?.url ?? '' })
    expect(output).toContain(server?.url ?? "this process's memory")
    expect(errors).toBe('')
    expect(output).toMatch(/is KILLED halfway through job 2/)
    expect(output).toMatch(/is PAUSED between its last check and its write of job 4/)
    expect(output).toMatch(/wrote job 4 too late with fence \d+; the row refused it/)
    // There is more than one only if the machine stands still for longer than a lease.
    expect(output).toMatch(
      /8 done once, [1-9]\d* late writes? refused\. Every job was done exactly once\./,
    )
    expect(code).toBe(0)
  })

  it('does a job twice without the fence, and ends with an exit code for that', async () => {
    const { code, output } = await demo({ FENCE: 'off' })
    expect(output).toMatch(/job 4 +\d +2 /)
    expect(output).toContain('NOT every job was done exactly once.')
    expect(code).toBe(1)
  })

  it.each([
    ['redis://127.0.0.1:1', /^REDIS_URL=redis:\/\/127\.0\.0\.1:1: cannot use it \(.+\).*\n$/],
    ['localhost:6379', /^REDIS_URL=localhost:6379: use redis:\/\/host:port .*\n$/],
  ])('reports REDIS_URL=%s as unusable in one line', async (REDIS_URL, line) => {
    const { code, output, errors } = await demo({ REDIS_URL })
    expect(errors).toMatch(line)
    expect(errors.trim()).not.toContain('\n')
    expect(output).toBe('')
    expect(code).toBe(1)
  })
})
