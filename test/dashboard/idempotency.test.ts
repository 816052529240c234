// The dashboard's page of idempotency keys, in Chromium, on a real Redis and a real PostgreSQL.

import { createStampede, type Stampede } from '@stampede/core'
import { stampedeDashboard } from '@stampede/dashboard'
import { idempotentFront } from '@stampede/node-http'
import { postgresStore } from '@stampede/postgres'
import { redisStore } from '@stampede/redis'
import axe from 'axe-core'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { serve } from '../../packages/node-http/src/testing/raw-client.ts'
import { launchChromium } from '../harness/chromium.ts'
import { PATIENT } from '../harness/patient.ts'
import { HAS_POSTGRES, startPostgres } from '../harness/postgres.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

const SECRET = 's'.repeat(32)
const SCOPE = 'customer:7'

let browser: Browser
let stampede: Stampede
let url: string
let faults: string[]
let mayPost: boolean
let isSignedOut: boolean
const closers: Array<() => unknown> = []
const closeLater = (close: () => unknown): void => void closers.unshift(close)

beforeAll(async () => {
  browser = await launchChromium()
}, 120_000)
afterAll(() => browser?.close())
beforeEach(() => {
  faults = []
  mayPost = true
  isSignedOut = false
})
afterEach(async () => {
  for (const context of browser.contexts()) await context.close()
  for (const close of closers.splice(0)) await close()
})

async function onRedis(): Promise<RedisServer> {
  const redis = await startRedis()
  closeLater(() => redis.stop())
  const client = new Redis(redis.url, { lazyConnect: true })
  closeLater(() => client.disconnect())
  const store = redisStore(client, PATIENT)
  await start(createStampede({ store, idempotency: { secret: SECRET } }))
  return redis
}

async function onPostgres(): Promise<void> {
  const server = await startPostgres()
  closeLater(() => server.stop())
  const pool = new pg.Pool({ connectionString: server.url })
  pool.on('error', () => {})
  closeLater(() => pool.end())
  const store = postgresStore(pool)
  await store.migrate()
  await start(createStampede({ idempotency: { store, secret: SECRET } }))
}

async function start(created: Stampede): Promise<void> {
  stampede = created
  closeLater(() => created.close())
  const authorize = ({ method }: { method?: string | undefined }) =>
    !isSignedOut && (mayPost || method !== 'POST')
  const dashboard = stampedeDashboard({ stampede, authorize })
  const server = await serve((req, res) =>
    dashboard(req, res, () => {
      if (!isSignedOut) res.writeHead(404).end()
      else if (req.url !== '/sign-in') res.writeHead(302, { Location: '/sign-in' }).end()
      else res.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>Sign in</h1>')
    }),
  )
  closeLater(() => server[Symbol.asyncDispose]())
  closeLater(() => dashboard.close())
  url = `http://127.0.0.1:${server.port}/`
}

const STORES = [
  ['Redis', onRedis, false],
  ['PostgreSQL', onPostgres, !HAS_POSTGRES],
] as const

/** A job whose outcome nobody knows. */
const uncertain = (job: string, scope = SCOPE) =>
  stampede.idempotent(job, (attempt) => attempt.uncertain(), { scope })
const done = (job: string) => stampede.idempotent(job, () => job, { scope: SCOPE })
const stateOf = async (job: string, scope = SCOPE) =>
  (await stampede.idempotency.inspect({ job, scope }))?.state

async function open(width = 1280): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 800 } })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('dialog', () => faults.push('a dialog of the browser'))
  await page.goto(`${url}#/idempotency`)
  await page.getByText('Live').first().waitFor()
  return page
}

async function look(page: Page, job: string, scope = SCOPE): Promise<void> {
  await page.getByLabel('Of a').selectOption('job')
  await page.getByLabel('Scope').fill(scope)
  await page.getByLabel('Key', { exact: true }).fill(job)
  await page.getByRole('button', { name: 'Show', exact: true }).click()
}
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const stateOn = (page: Page) => page.locator('.life-state')
const rows = (page: Page) =>
  page.getByRole('table', { name: 'Idempotency keys in the store' }).locator('tbody tr')

describe.each(STORES)(
  'the page of idempotency keys on %s',
  { timeout: 240_000 },
  (name, on, skip) => {
    it.skipIf(skip)(
      'lists keys that need attention, and settles one after a confirmation',
      async () => {
        await on()
        await done('invoice:1')
        await uncertain('invoice:2')
        const page = await open()
        await button(page, 'Read from the store').click()
        await rows(page).first().waitFor()
        expect(await rows(page).count()).toBe(1)
        expect(await rows(page).textContent()).toContain('uncertain')
        await page.getByLabel('Show').selectOption('all')
        await button(page, 'Read from the store').click()
        await rows(page).nth(1).waitFor()
        const states = await rows(page).locator('.state').allTextContents()
        expect(states).toEqual(['uncertain', 'completed'])
        await page
          .getByText(`${name.toLowerCase().slice(0, 5)}`, { exact: false })
          .first()
          .waitFor()

        await look(page, 'invoice:2')
        await page.getByText('It is unknown whether the work was done').waitFor()
        await button(page, 'Release…').click()
        await page.getByRole('heading', { name: `Release job invoice:2 of ${SCOPE}?` }).waitFor()
        await page.getByText('it is done twice').waitFor()
        await button(page, 'Cancel').click()
        expect(await stateOf('invoice:2')).toBe('uncertain')
        await button(page, 'Set the result…').click()
        await page.getByLabel('Result, as JSON').fill('{"charge":"ch_1"}')
        await button(page, 'Set the result').click()
        await page.getByText(`Settled job invoice:2 of ${SCOPE}.`).waitFor()
        await stateOn(page).getByText('completed').waitFor()
        expect(await done('invoice:2')).toEqual({ charge: 'ch_1' })
        expect(faults).toEqual([])
      },
    )

    it.skipIf(skip)('settles once if two operators have seen the same state', async () => {
      await on()
      await uncertain('invoice:3')
      const [ada, grace] = [await open(), await open()]
      for (const page of [ada, grace]) {
        await look(page, 'invoice:3')
        await stateOn(page).getByText('uncertain').waitFor()
        await button(page, 'Release…').click()
      }
      await button(ada, 'Release').click()
      await ada.getByText('Settled job invoice:3').waitFor()
      await button(grace, 'Release').click()
      await grace.getByText('nothing was changed, because the key has changed').waitFor()
      await stateOn(grace).getByText('released').waitFor()
      expect(faults).toEqual([expect.stringContaining('409')])
    })

    it.skipIf(skip)(
      'ends a running attempt only after the operator has typed its state',
      async () => {
        await on()
        let end = (_: unknown): void => {}
        const work = () =>
          new Promise((resolve) => {
            end = resolve
          })
        const running = stampede.idempotent('slow', work, { scope: SCOPE })
        await expect.poll(() => stateOf('slow'), { timeout: 20_000 }).toBe('running')
        const page = await open()
        await look(page, 'slow')
        await button(page, 'Release…').click()
        expect(await button(page, 'Release').isDisabled()).toBe(true)
        await page.getByLabel('Type “running” to go on').fill('running')
        await button(page, 'Release').click()
        await stateOn(page).getByText('released').waitFor()
        end('late')
        expect(await running).toBe('late')
        expect(await done('slow')).toBe('slow')
        expect(faults).toEqual([])
      },
    )

    it.skipIf(skip)('shows an uncertain key first, among many', async () => {
      await on()
      for (let i = 0; i < 1_200; i += 50) {
        await Promise.all(Array.from({ length: 50 }, (_, n) => done(`many:${i + n}`)))
      }
      await uncertain('one of many')
      const page = await open()
      await button(page, 'Read from the store').click()
      await rows(page).first().waitFor()
      expect(await rows(page).locator('.state').allTextContents()).toEqual(['uncertain'])
      expect(faults).toEqual([])
    })
  },
)

describe('the page of idempotency keys', { timeout: 240_000 }, () => {
  it.each([
    ['markup', '<img src=x onerror=alert(1)><script>alert(1)</script>'],
    ['8 kB', 'k'.repeat(8_192)],
    ['characters that turn the text around', 'user\u202egpj.exe'],
    ['a NUL character', 'a\0b'],
  ])('shows and settles a key with %s as text', async (_, job) => {
    await onRedis()
    await uncertain(job, job.slice(0, 100))
    const page = await open(375)
    await look(page, job, job.slice(0, 100))
    await stateOn(page).getByText('uncertain').waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    await button(page, 'Release…').click()
    await button(page, 'Release').click()
    await stateOn(page).getByText('released').waitFor()
    expect(await page.locator('.notice').textContent()).not.toMatch(/[\p{Cc}\p{Cf}]/u)
    expect(await stateOf(job, job.slice(0, 100))).toBe('released')
    expect(faults).toEqual([])
  })

  it('sets the response of a request, whose status has to be given', async () => {
    await onRedis()
    const fail = idempotentFront((_req, res) => void res.writeHead(500).end(), {
      stampede,
      scope: () => SCOPE,
    })
    await using app = await serve(fail)
    const headers = { 'Idempotency-Key': '"k-1"' }
    const post = () => fetch(`http://127.0.0.1:${app.port}/pay`, { method: 'POST', headers })
    expect((await post()).status).toBe(500)
    const page = await open()
    await page.getByLabel('Scope').fill(SCOPE)
    await page.getByLabel('Key', { exact: true }).fill(headers['Idempotency-Key'])
    await button(page, 'Show').click()
    await stateOn(page).getByText('released').waitFor()
    await button(page, 'Set the result…').click()
    await button(page, 'Set the result').click()
    await page.getByLabel('Status').fill('201')
    await page.getByLabel('Status').press('Enter')
    expect((await stampede.idempotency.inspect({ scope: SCOPE, key: 'k-1' }))?.state).toBe(
      'released',
    )
    const body = '{"id": 12345678901234567890}'
    await page.getByLabel('Body').fill(body)
    await button(page, 'Set the result').click()
    await page.getByText('HTTP 201, 28 B').waitFor()
    const repeat = await post()
    expect([repeat.status, await repeat.text()]).toEqual([201, body])
    expect(repeat.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(faults).toEqual([])
  })

  it('tells a client that may only look why it cannot settle a key', async () => {
    await onRedis()
    await uncertain('invoice:4')
    mayPost = false
    const page = await open()
    await look(page, 'invoice:4')
    await button(page, 'Release…').click()
    await button(page, 'Release').click()
    await page.getByText('You may look at this page, but not change anything.').waitFor()
    await page.getByText('nothing was changed').waitFor()
    expect(await stateOf('invoice:4')).toBe('uncertain')
  })

  it('shows neither success nor a missing key if the app asks to sign in again', async () => {
    await onRedis()
    await uncertain('invoice:6')
    const page = await open()
    await look(page, 'invoice:6')
    await button(page, 'Release…').click()
    isSignedOut = true
    await button(page, 'Release').click()
    await page.locator('.notice').getByText('Sign in again.').waitFor()
    await page.locator('.problem').getByText('Sign in again.').waitFor()
    expect(
      await page
        .locator('main, .notice')
        .getByText(/Settled|No record/)
        .count(),
    ).toBe(0)
    expect(await stateOf('invoice:6')).toBe('uncertain')
  })

  it('says in which store it found no key', async () => {
    await onRedis()
    const page = await open()
    await page.getByText('No process of the fleet has seen an idempotency key.').waitFor()
    await button(page, 'Read from the store').click()
    await page.getByText('No such key in this store (redis).').waitFor()
    await look(page, 'none')
    await page.getByText('the key was not used, has expired').waitFor()
    expect(faults).toEqual([])
  })

  it('costs Redis one scan a page, and none of the responses', async () => {
    const redis = await onRedis()
    for (let i = 0; i < 20; i++) {
      await stampede.idempotent(`large:${i}`, () => 'x'.repeat(100_000), { scope: SCOPE })
    }
    const admin = new Redis(redis.url)
    closeLater(() => admin.disconnect())
    const sentBytes = async () =>
      Number(/total_net_output_bytes:(\d+)/.exec(await admin.info('stats'))?.[1])
    const [before, bytes] = [await redis.commandStats(), await sentBytes()]
    const response = await fetch(`${url}api/idempotency`)
    expect(((await response.json()) as { records: unknown[] }).records).toHaveLength(20)
    const after = await redis.commandStats()
    const calls = (command: string) => (after[command] ?? 0) - (before[command] ?? 0)
    expect(calls('scan')).toBe(1)
    // Reports of the process are scripts, too.
    expect(calls('evalsha')).toBeLessThan(30)
    expect((await sentBytes()) - bytes).toBeLessThan(500_000)
  })

  it('is accessible and fits, in both windows and colours, with and without its dialog', async () => {
    await onRedis()
    await uncertain('invoice:5')
    for (let i = 0; i < 5; i++) await done(`invoice:${10 + i}`)
    for (const width of [1280, 375]) {
      const page = await open(width)
      await look(page, 'invoice:5')
      await stateOn(page).waitFor()
      await page.getByLabel('Show').selectOption('all')
      await button(page, 'Read from the store').click()
      await rows(page).first().waitFor()
      await page.evaluate(axe.source)
      for (const dialog of ['', 'Set the result…']) {
        if (dialog !== '') await button(page, dialog).click()
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          const { violations } = await page.evaluate<axe.AxeResults>('axe.run()')
          const view = `${width} ${colorScheme} ${dialog}`
          expect(
            violations.map(({ id }) => id),
            view,
          ).toEqual([])
          const tooWide = 'document.documentElement.scrollWidth - innerWidth'
          expect(await page.evaluate(tooWide), view).toBe(0)
        }
      }
    }
    expect(faults).toEqual([])
  })
})
