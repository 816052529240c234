import { PassThrough } from 'node:stream'
import { describe, expect, it, vi } from 'vitest'
import { run } from './run.ts'
import { Terminal } from './terminal.ts'

function fake(isTTY: boolean, env: Record<string, string> = {}) {
  const stream = () => Object.assign(new PassThrough(), { isTTY })
  const [stdin, stdout, stderr] = [stream(), stream(), stream()]
  const read = (from: PassThrough) => String(from.read() ?? '')
  return {
    terminal: new Terminal({ stdin, stdout, stderr, env }),
    stdin,
    out: () => read(stdout),
    err: () => read(stderr),
  }
}

describe('colours', () => {
  it.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { TERM: 'dumb' }, false],
    [false, { FORCE_COLOR: '1' }, true],
    [true, { FORCE_COLOR: '0' }, false],
  ])('follow the terminal (%s) and the environment %j', (isTTY, env, hasColour) => {
    const { terminal } = fake(isTTY, env as Record<string, string>)
    expect(terminal.style('red', 'text').includes('\x1b')).toBe(hasColour)
  })

  it('are not in JSON', () => {
    const { terminal } = fake(true)
    terminal.json = true
    expect(terminal.style('red', 'text')).toBe('text')
  })
})

describe('control characters', () => {
  it('do not reach the terminal in errors or JSON, which stays the same value', async () => {
    const { terminal, out, err } = fake(true, { NO_COLOR: '1' })
    expect(await run(['\x1b]0;title\x07', '--json'], terminal)).toBe(2)
    terminal.print({ key: 'k\x9b31m' }, () => [])
    const shown = out()
    expect(`${shown}${err()}`.match(/[^\n\x20-\x7e]/g)).toBeNull()
    expect(shown).toContain('"k\\u009b31m"')
  })
})

describe('the URL of Redis', () => {
  it.each(['valkey://user:s3cret@host:1', 'redis://user:s3cret%zz@host:1'])(
    'is refused without showing its password: %s',
    async (url) => {
      const { terminal, out, err } = fake(false)
      expect(await run(['locks', '--redis', url, '--json'], terminal)).toBe(2)
      expect(`${out()}${err()}`).not.toContain('s3cret')
    },
  )
})

describe('a progress bar', () => {
  it('is drawn on stderr of a terminal only', () => {
    vi.useFakeTimers({ now: 1_000_000 })
    const [person, file] = [fake(true), fake(false)]
    for (const { terminal } of [person, file]) {
      const progress = terminal.progress('Scanning')
      progress.show(500, 1_000)
      progress.clear()
    }
    vi.useRealTimers()
    expect(person.err()).toContain('Scanning ████████████░░░░░░░░░░░░ 50 % (500 of 1,000 keys)')
    expect([person.out(), file.err(), file.out()]).toEqual(['', '', ''])
  })

  it('counts the keys if their number is unknown', () => {
    const { terminal, err } = fake(true)
    terminal.progress('Scanning').show(2_000, undefined)
    expect(err()).toContain('Scanning 2,000 keys')
  })
})

describe('a purge of everything', () => {
  it('asks on a terminal, and purges nothing unless the answer is yes', async () => {
    const { terminal, stdin, out, err } = fake(true)
    stdin.end('no\n')
    expect(await run(['purge', '--all'], terminal)).toBe(1)
    expect(err()).toContain('Purge all entries of prefix stampede on redis://127.0.0.1:6379?')
    expect(out()).toBe('Nothing was purged.\n')
  })
})

describe('wrong arguments', () => {
  it.each([
    [['nope'], 'unknown command nope'],
    [['--json', 'top'], 'begin with a command'],
    [['get'], 'name one key or URL'],
    [['get', 'a', '--nope'], '--nope'],
    [['get', 'a', '--timeout', 'soon'], '--timeout'],
    [
      ['get', 'https://a/', '--cookies', 'key:a', '--cookies', 'key:b'],
      '--cookies: received twice',
    ],
    [['why', 'https://a/', '--identity=a', '--identity', 'b'], '--identity: received twice'],
    [['purge', '--path', '/a', '--host', 'b', '--host', 'c'], '--host: received twice'],
    [['get', 'a', '--redis', 'http://127.0.0.1'], 'use redis://'],
    [['why', 'no url'], 'begins with http'],
    [['why', 'https://a/', '--vary', '*'], 'stampedeCache.vary'],
    [['purge'], 'exactly one'],
    [['purge', '--all'], '--yes'],
    [['purge', '--tag', 'a', '--host', 'b'], '--host needs --path'],
    [['idempotency', 'show', 'k'], '--scope'],
    [['idempotency', 'settle', 'k', '--scope', 's'], 'exactly one of --release'],
  ])('refuses the arguments %j with exit code 2', async (args, message) => {
    const { terminal, err } = fake(false)
    const code = await run(args, terminal)
    expect(err()).toContain(message)
    expect(code).toBe(2)
  })
})

describe('an error', () => {
  it('is JSON on stdout with --json, and text on stderr', async () => {
    const { terminal, out, err } = fake(false)
    expect(await run(['nope', '--json'], terminal)).toBe(2)
    expect(JSON.parse(out()).error.code).toBe('USAGE')
    expect(err()).toContain('stampede: unknown command nope')
  })
})
