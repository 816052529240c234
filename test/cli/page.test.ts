// The command lines of docs/guide/command-line.md, run on a real server.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { commandLine } from '../harness/command-line.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()
const page = readFileSync(new URL('../../docs/guide/command-line.md', import.meta.url), 'utf8')
const lines = [...page.matchAll(/^npx @stampede\/cli (.+)$/gm)].map(([, line = '']) => line)

/** Words of a shell command line. Quotes keep spaces. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')

describe.concurrent('the command lines of the page', () => {
  it.each(lines)('stampede %s is accepted', async (line) => {
    const run = commandLine(server.url, { STAMPEDE_SECRET: 'x'.repeat(32) })
    const { code, err } = await run(...wordsOf(line))
    expect(err).toBe('')
    expect([0, 1]).toContain(code)
  })

  it('name every command', () => {
    const commands = ['top', 'why', 'get', 'purge', 'locks', 'idempotency', 'doctor']
    for (const command of commands) expect(page).toMatch(new RegExp(`^\\| \`${command}`, 'm'))
  })
})
