// The fast path of a hit responds as the slow path would. Two apps, one of them without the fast
// path, go through the same events. They must send the same bytes and emit the same events.

import { connect } from 'node:net'
import { createStampede, type Stampede, type StampedeEvent } from '@stampede/core'
import { ManualClock, RecordStore } from '@stampede/core/testing'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { randomFrom } from '../fuzz/leaks/random.ts'
import { type Framework, frameworks, type Outside, type Seen } from '../harness/apps.ts'
import { anyOptions, anySteps, OUTSIDE, PAGES, type Step } from './fast-path/life.ts'

const RUNS = Number(process.env.SHORT_WAY_RUNS ?? 60)

const way = vi.hoisted(() => ({ isLong: false, taken: 0 }))
vi.mock('../../packages/core/src/cache/respond.ts', async (original) => {
  const whole = await original<Record<'freshHit' | 'isPlain', (...args: unknown[]) => unknown>>()
  return {
    ...whole,
    freshHit(...args: unknown[]) {
      const ready = way.isLong ? undefined : whole.freshHit(...args)
      if (ready !== undefined) way.taken += 1
      return ready
    },
    // The fast path also sends entries from the store, and responses that a request waited for.
    isPlain: (...args: unknown[]) => !way.isLong && whole.isPlain(...args),
  }
})

/** One of the two apps. */
async function live(
  framework: Framework,
  outside: Outside | undefined,
  options: object,
  l1: { maxEntries?: number },
  seed: number,
) {
  const clock = new ManualClock(randomFrom(seed).next)
  const store = new RecordStore()
  const stampede = createStampede({ clock, store, l1 })
  const events: StampedeEvent[] = []
  stampede.on('*', (event) => events.push(event))
  let version = 0
  let page = PAGES[0]
  const given = Object.fromEntries(Object.entries(options).filter(([, v]) => v !== undefined))
  const says = async (seen: Seen) => {
    await clock.advance((seed % 3) * 400)
    return page?.(version)(seen)
  }
  const app = await framework.start({ stampede, ...given }, says, outside)
  const port = Number(new URL(app.url).port)
  return {
    stampede,
    events,
    [Symbol.asyncDispose]: () => app[Symbol.asyncDispose](),
    async take(step: Step): Promise<string> {
      if (step.type === 'advance') await clock.advance(step.ms)
      if (step.type === 'close') await stampede.close()
      if (step.type === 'hear') {
        const confirmedAt = step.well ? Number.POSITIVE_INFINITY : clock.now()
        Object.assign(store, { confirmedAt })
      }
      if (step.type === 'page') {
        version += 1
        page = PAGES[step.index]
      }
      if (step.type === 'purge') await purge(stampede, step.what, step.soft)
      const answer = step.type === 'ask' ? await ask(port, step) : ''
      await quiet(stampede)
      return answer
    },
  }
}

function purge(stampede: Stampede, what: number, soft: boolean): Promise<void> {
  const targets = [{ path: '/a' }, { tag: 't' }, { route: '/:page' }, { all: true }] as const
  return stampede.purge(targets[what] as (typeof targets)[0], { soft })
}

/** Resolves when nothing is under way in the background. */
async function quiet(stampede: Stampede): Promise<void> {
  await new Promise(setImmediate)
  while (stampede.stats().active.flights > 0) await new Promise(setImmediate)
}

function ask(port: number, step: Extract<Step, { type: 'ask' }>): Promise<string> {
  const { method, path, version, lines } = step
  const closes = lines.some((line) => line.startsWith('connection')) ? [] : ['connection: close']
  const head = [`${method} ${path} HTTP/${version}`, 'host: shop.test', ...lines, ...closes]
  // The second response on a connection shows that the first had its stated length.
  const last = ['GET /b HTTP/1.1', 'host: shop.test', 'connection: close', '', '']
  const text = [...head, '', ...(closes.length === 0 ? last : [''])].join('\r\n')
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const chunks: Buffer[] = []
    socket.on('error', reject)
    socket.on('data', (chunk) => void chunks.push(chunk))
    socket.on('close', () => {
      const got = Buffer.concat(chunks).toString('latin1')
      resolve(got.replaceAll(/HTTP[\s\S]*?\r\n\r\n/g, inOrder))
    })
    socket.write(text)
  })
}

/** Fields by name, in lower case, without the date. */
function inOrder(head: string): string {
  const [status, ...lines] = head.trimEnd().split('\r\n')
  const named = lines.map((line) => line.replace(/^[^:]*/, (name) => name.toLowerCase()))
  const timeless = named.map((line) => line.replace(/^date: .*/, 'date: now'))
  const sorted = timeless.sort(
    (a, b) => Number(nameOf(a) > nameOf(b)) - Number(nameOf(a) < nameOf(b)),
  )
  return [status, ...sorted, '', ''].join('\n')
}
const nameOf = (line: string): string => line.split(':', 1)[0] ?? ''

/** A front has one fast path for all apps behind it. */
const ways = frameworks.filter(({ name }) => !/^a front before (Express|Koa)/.test(name))

describe.each(ways)('a hit on $name', (framework) => {
  it('gets the same response by the fast path as by the slow path', async () => {
    const before = way.taken
    await fc.assert(
      fc.asyncProperty(
        anyOptions,
        fc.constantFrom(...OUTSIDE),
        fc.constantFrom({}, {}, { maxEntries: 2 }),
        fc.nat(),
        anySteps,
        async (options, outside, l1, seed, steps) => {
          await using short = await live(framework, outside, options, l1, seed)
          await using long = await live(framework, outside, options, l1, seed)
          for (const step of [...steps, { type: 'close' } as const]) {
            way.isLong = false
            const one = await short.take(step)
            way.isLong = true
            const other = await long.take(step)
            expect(one).toBe(other)
            expect(shown(short.events)).toEqual(shown(long.events))
            expect(short.stampede.stats()).toEqual(long.stampede.stats())
          }
        },
      ),
      { numRuns: RUNS },
    )
    expect(way.taken).toBeGreaterThan(before + RUNS)
  })
})

const shown = (events: readonly StampedeEvent[]) =>
  events.map((event) => ({
    ...event,
    key: event.key.replace(/127\.0\.0\.1:\d+/, 'host'),
    internalKey: event.internalKey.replace(/127\.0\.0\.1:\d+/, 'host'),
  }))
