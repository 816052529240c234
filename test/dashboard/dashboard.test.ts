// The dashboard of a real fleet on a real Redis, in Chromium.

import { request } from 'node:http'
import axe from 'axe-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { launchChromium } from '../harness/chromium.ts'
import { type Fleet, type FleetMember, startFleet } from '../harness/fleet.ts'
import { openAdmin } from '../harness/lock-fleet.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

const WIDE = { width: 1280, height: 800 }
const PHONE = { width: 390, height: 844 }
const WAITERS = 30

let redis: RedisServer
let browser: Browser
let fleet: Fleet
let served: FleetMember
let other: FleetMember
let faults: string[]

beforeAll(async () => {
  redis = await startRedis()
  browser = await launchChromium()
}, 120_000)
afterAll(async () => {
  await browser?.close()
  await redis?.stop()
})
beforeEach(async () => {
  faults = []
  fleet = await startFleet({
    size: 2,
    entry: new URL('../harness/servers/dashboard-app.mjs', import.meta.url),
    env: { REDIS_URL: redis.url },
  })
  const [first, second] = fleet.members
  if (!first || !second) throw new Error('no fleet')
  served = first
  other = second
})
afterEach(async () => {
  for (const context of browser.contexts()) await context.close()
  await fleet.stop()
})

/** Opens a page of the dashboard as an operator, and collects errors of the console. */
async function open(hash = '', options: BrowserContextOptions = { viewport: WIDE }): Promise<Page> {
  const context = await browser.newContext(options)
  await context.addCookies([{ name: 'operator', value: 'yes', url: served.url }])
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(error.message))
  await page.goto(`${served.url}/dashboard/${hash}`)
  await page.getByText('Live').first().waitFor()
  return page
}

/** Sends a request as a client of the shop, whose host is the same for all processes. */
function get(member: FleetMember, path: string): Promise<string> {
  return new Promise((resolve) => {
    const headers = { Host: 'shop.example' }
    const sent = request(`${member.url}${path}`, { headers, agent: false }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        body += chunk
      })
      response.on('close', () => resolve(body))
    })
    sent.on('error', () => resolve(''))
    sent.end()
  })
}

const many = (member: FleetMember, path: string, count: number) =>
  Array.from({ length: count }, () => get(member, path))
const gate = (state: 'open' | 'close', members: readonly FleetMember[] = fleet.members) =>
  Promise.all(members.map((member) => member.ask({ type: `${state} the gate` })))
const runsOf = async (): Promise<number> => {
  const replies = fleet.members.map((member) => member.ask<{ runs: number }>({ type: 'look' }))
  return (await Promise.all(replies)).reduce((sum, { runs }) => sum + runs, 0)
}
const herd = (page: Page, key: string) => page.locator('.herd').filter({ hasText: key })
const rowOf = (page: Page, { pid }: FleetMember) => {
  const table = page.getByRole('table', { name: 'Processes of the fleet' })
  return table.getByRole('row').filter({ hasText: `:${pid}` })
}

describe('the page of the fleet', { timeout: 180_000 }, () => {
  it('shows the holder of a key and the waiters of all processes, while the origin runs once', async () => {
    const page = await open()
    await gate('close')
    const first = get(served, '/products/7')
    await herd(page, '/products/7').waitFor()
    const all = fleet.members.flatMap((member) => many(member, '/products/7', WAITERS))
    await herd(page, '/products/7')
      .getByText(`${2 * WAITERS} waiters in 2 processes`)
      .waitFor()
    expect(await herd(page, '/products/7').textContent()).toContain(`:${served.pid}`)
    await gate('open')
    const bodies = new Set(await Promise.all([first, ...all]))
    expect([bodies.size, await runsOf()]).toEqual([1, 1])
    await page.getByText('No process fills a key right now').waitFor()
    await page.getByRole('rowheader', { name: '/products/:id' }).waitFor()
    expect(faults).toEqual([])
  })

  it('shows a frozen holder as silent, then the process that takes over, then that it is gone', async () => {
    const page = await open()
    await rowOf(page, other).waitFor()
    await gate('close')
    void get(other, '/products/8')
    await herd(page, '/products/8').getByText(`:${other.pid}`).waitFor()
    const waiting = get(served, '/products/8')
    other.pause()
    try {
      await rowOf(page, other).getByText('silent for').waitFor()
      await herd(page, '/products/8').getByText(`:${served.pid}`).waitFor()
      await gate('open', [served])
      expect(await waiting).toContain('"id":"8"')
      await page.getByText('stopped reporting and is gone').waitFor()
      await rowOf(page, other).waitFor({ state: 'detached' })
    } finally {
      other.resume()
    }
    await rowOf(page, other).waitFor()
    await gate('open', [other])
    expect(faults).toEqual([])
  })

  it('shows that a process has closed its dashboard', async () => {
    const page = await open()
    await rowOf(page, other).waitFor()
    await other.stop()
    await page.getByText('closed its dashboard').waitFor()
    expect(faults).toEqual([])
  })

  it('shows by route why requests of all processes are not cached, with the fix', async () => {
    await get(served, '/account')
    await get(other, '/account')
    const page = await open()
    const table = page.getByRole('table', { name: 'Reasons by route' })
    const row = table
      .getByRole('row')
      .filter({ hasText: '/account' })
      .filter({ hasText: 'private' })
    await row.waitFor()
    expect(await row.textContent()).toContain('Stampede-Cache-Control: max-age=60')
    expect(await row.textContent()).toContain('#cache-control-of-the-response')
    expect(faults).toEqual([])
  })

  it('tries again if the server is gone, and says so', async () => {
    const page = await open()
    await served.kill()
    await page.getByText('Reconnecting').waitFor()
    await page.getByText('These figures are old').waitFor()
    await page.getByRole('button', { name: 'Try now' }).waitFor()
  })

  it('reads no reports without a viewer, and none while it is paused', async () => {
    const page = await open()
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused').waitFor()
    /** Reads of reports in 4.5 s, without the commands by which processes write theirs. */
    const reads = async () => {
      const trace = await redis.traceCommands()
      await new Promise((resolve) => setTimeout(resolve, 4_500))
      const isRead = /^"ZRANGEBYSCORE" "[^"]*reports\}:ends" [^ ]+ "\+inf"/i
      return (await trace.stop()).filter(({ text }) => isRead.test(text)).length
    }
    const paused = await reads()
    await page.getByRole('button', { name: 'Go on' }).click()
    await page.getByText(/^Live, /).waitFor()
    expect(await reads()).toBeGreaterThan(paused)
    expect(paused).toBe(0)
  })
})

describe('the page of a key', { timeout: 180_000 }, () => {
  it('shows what is stored, and purges it by tag after a confirmation', async () => {
    await get(other, '/products/9')
    const page = await open()
    await page.getByRole('link', { name: 'Key', exact: true }).click()
    await page.getByLabel('URL or key').fill('http://shop.example/products/9')
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByText('Fresh for').waitFor()
    await page.getByRole('button', { name: 'Tag product:9' }).click()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Tag product:9' }).click()
    await page.getByRole('button', { name: 'Purge hard' }).click()
    await page.getByText('Purged tag product:9.').waitFor()
    await page.getByText('by tag product:9').waitFor()
    await get(served, '/products/9')
    await page.getByText('the entry had been purged').waitFor()
    expect(await runsOf()).toBe(2)
    await page.getByRole('link', { name: 'Purge', exact: true }).click()
    await page.getByRole('cell', { name: 'tag product:9' }).waitFor()
    expect(faults).toEqual([])
  })

  it.each([
    ['markup', '<img src=x onerror=alert(1)><script>alert(1)</script>'],
    ['characters that turn the text around', 'user\u202egpj.exe'],
    ['control characters', 'a\u0000b\nc'],
  ])('shows a key with %s as text', async (_, key) => {
    for (let i = 0; i < 2; i++) await served.ask({ type: 'get', key })
    const page = await open()
    page.on('dialog', () => faults.push('a dialog'))
    await page.locator('a.key').first().click()
    await page.getByText('Fresh for').waitFor()
    const shown = (await page.locator('.key-name').textContent()) ?? ''
    const codes = key.replace(/[\u202e\0\n]/g, (each) => {
      const code = each.codePointAt(0) ?? 0
      return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
    })
    expect(shown).toBe(codes)
    expect(faults).toEqual([])
  })
})

it('the page of purges purges a path on one host', async () => {
  await get(served, '/products/1')
  const page = await open('#/purge')
  const purge = async (host: string) => {
    await page.getByLabel('What').selectOption('path')
    await page.getByLabel('Name').fill('/products/1')
    await page.getByLabel('Host').fill(host)
    await page.getByRole('button', { name: 'Purge…' }).click()
    await page.getByRole('button', { name: 'Purge hard' }).click()
    await page.getByRole('cell', { name: `path /products/1 on ${host}` }).waitFor()
    await page.locator('dialog[open]').waitFor({ state: 'detached' })
    await get(served, '/products/1')
    return runsOf()
  }
  expect(await purge('other.example')).toBe(1)
  expect(await purge('shop.example')).toBe(2)
  expect(faults).toEqual([])
})

it('the page of purges purges several tags at once, one a line', async () => {
  await get(served, '/products/31')
  const page = await open('#/purge')
  await page.getByLabel('Name').fill('other\n product:31 \n')
  await page.getByLabel('Name').press('Enter')
  await page.getByRole('heading', { name: 'Purge tag other, product:31?' }).waitFor()
  await page.getByRole('button', { name: 'Purge hard' }).click()
  await page.getByRole('cell', { name: 'tag other, product:31' }).waitFor()
  await get(served, '/products/31')
  expect(await runsOf()).toBe(2)
  expect(faults).toEqual([])
})

it('the page of locks shows the holder of a lock, and on demand its queue', async () => {
  const key = 'invoice:7'
  const message = { type: 'hold the lock', key }
  await using admin = openAdmin(redis)
  await other.ask(message)
  await admin.isHeld(key)
  const page = await open('#/locks')
  const held = page.getByRole('table', { name: 'Locks that processes of the fleet hold' })
  await held
    .getByRole('row')
    .filter({ hasText: `:${other.pid}` })
    .getByText(key)
    .waitFor()
  await served.ask(message)
  await admin.queued(key, 1)
  await page.getByRole('button', { name: 'Read from the store' }).click()
  const row = page.getByRole('table', { name: 'Locks in the store' }).getByRole('row').nth(1)
  await row.waitFor()
  expect(await row.getByRole('cell').allTextContents()).toEqual([
    expect.stringContaining(`:${other.pid}`),
    expect.any(String),
    expect.any(String),
    '1',
    expect.any(String),
  ])
  expect(faults).toEqual([])
})

it('each page is accessible, fits and has no error, in both windows and colours', async () => {
  for (let i = 0; i < 3; i++) await get(served, '/products/1')
  await get(served, '/account')
  await gate('close')
  void get(other, '/products/10')
  const key = encodeURIComponent('http://shop.example/products/1')
  for (const hash of ['', `#/key/${key}`, '#/locks', '#/purge']) {
    const page = await open(hash)
    if (hash === '') await herd(page, '/products/10').waitFor()
    if (hash.startsWith('#/key')) await page.getByText('Fresh for').waitFor()
    await page.evaluate(axe.source)
    for (const viewport of [WIDE, PHONE])
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.setViewportSize(viewport)
        await page.emulateMedia({ colorScheme })
        const { violations } = await page.evaluate<axe.AxeResults>(
          // The scheme changes only colours.
          colorScheme === 'light' ? 'axe.run()' : "axe.run({ runOnly: ['color-contrast'] })",
        )
        const view = `${hash} ${viewport.width} ${colorScheme}`
        expect(
          violations.map(({ id }) => id),
          view,
        ).toEqual([])
        const tooWide = 'document.documentElement.scrollWidth - innerWidth'
        expect(await page.evaluate(tooWide), view).toBeLessThanOrEqual(0)
      }
    await page.context().close()
  }
  await gate('open')
  expect(faults).toEqual([])
}, 180_000)

it('the page can be used with the keyboard alone', async () => {
  await get(served, '/products/1')
  const page = await open('#/purge')
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content')
  await page.keyboard.press('Enter')
  for (const key of ['Tab', 'Tab']) await page.keyboard.press(key)
  await page.keyboard.type('product:1')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Purge tag product:1?' }).waitFor()
  await page.keyboard.press('Escape')
  await page.locator('dialog[open]').waitFor({ state: 'detached' })
  expect(faults).toEqual([])
})
