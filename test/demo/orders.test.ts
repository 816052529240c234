// The order demo as a user runs it: a service is killed in its work, without a transaction and with
// one.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { guard } from '../harness/guard.ts'
import { HAS_POSTGRES, startPostgres } from '../harness/postgres.ts'

const ROOT = new URL('../../', import.meta.url)
const MAIN = fileURLToPath(new URL('apps/orders/dist/main.js', ROOT))

/** The promise of the package, as its page begins. */
const PROMISE =
  "In transaction mode, the handler's writes and the stored response commit together or not at all, " +
  'so for each scope and key the writes take effect exactly once.'

async function demo(DATABASE_URL: string) {
  const env = { ...process.env, NODE_OPTIONS: '', DATABASE_URL }
  const child = spawn(process.execPath, [MAIN], { env })
  if (child.pid !== undefined) child.once('exit', guard(child.pid))
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (chunk) => (output += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk) => (errors += chunk))
  const [code] = await once(child, 'close')
  const [without = '', withOne = ''] = output.split('With `transaction: true`')
  return { code, errors, without, withOne }
}

describe('the order demo', { timeout: 120_000 }, () => {
  const places = ['in this process', ...(HAS_POSTGRES ? ['on a server'] : [])]

  it.each(places)('lets each order take effect exactly once, in PostgreSQL %s', async (place) => {
    await using server = place === 'on a server' ? await startPostgres() : undefined
    const { code, errors, without, withOne } = await demo(server?.url ?? '')
    expect(errors).toBe('')
    expect(without.match(/the service is KILLED/g)).toHaveLength(3)
    expect(without).toMatch(/order-3 +2 +1 +NOT exactly once/)
    expect(without).toMatch(/order-4 +2 +2 +NOT exactly once/)
    expect(without).toContain('3 of 5 orders took effect exactly once')
    expect(withOne.match(/the service is KILLED/g)).toHaveLength(3)
    expect(withOne).toContain('5 of 5 orders took effect exactly once')
    expect(code).toBe(0)
  })
})

describe('the page about PostgreSQL', () => {
  it('begins with the promise', () => {
    const page = readFileSync(new URL('docs/guide/postgres.md', ROOT), 'utf8').replace(/\s+/g, ' ')
    expect(page.startsWith(`# Exactly once with PostgreSQL ${PROMISE} `)).toBe(true)
  })
})
