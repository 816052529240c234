// The command lines of docs/guide/command-line.md, run on a real server.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { commandLine } from '../harness/command-line.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()
const app = createServer((_req, res) => res.end('products')).listen(0, '127.0.0.1')
await once(app, 'listening')
afterAll(() => void app.close())
const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}`
const page = readFileSync(new URL('../../docs/guide/command-line.md', import.meta.url), 'utf8')
const lines = [...page.matchAll(/^npx @stampede\/cli (.+)$/gm)].map(([, line = '']) => line)

/** Words of a shell command line. Quotes keep spaces. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((found) => found.slice(1).join(''))

describe('the command lines of the page', () => {
  it.each(lines)('stampede %s is accepted', async (line) => {
    const run = commandLine(server.url, { STAMPEDE_SECRET: 'x'.repeat(32) })
    const words = wordsOf(line.replace('http://localhost:3000', url))
    const { code, err } = await run(...words)
    expect(err).toBe('')
    expect([0, 1]).toContain(code)
  })

  it('name every command', () => {
    const commands = ['top', 'why', 'get', 'keys', 'purge', 'locks', 'idempotency', 'doctor']
    for (const command of commands) expect(page).toMatch(new RegExp(`^\\| \`${command}`, 'm'))
  })
})
