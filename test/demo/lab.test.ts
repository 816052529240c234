// The lab page in Chromium: it runs by itself, each button shows its fault, and the page is
// accessible at both widths in both colour schemes.

import axe from 'axe-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launchChromium } from '../harness/chromium.ts'
import { type Demo, startDemo } from '../harness/demo.ts'
import { freePort } from '../harness/free-port.ts'

const WIDE = { width: 1280, height: 800 }
const PHONE = { width: 390, height: 844 }
const RUN_MS = 60_000

let demo: Demo
let browser: Browser

beforeAll(async () => {
  demo = startDemo('shop-express', { PORT: String(await freePort()) })
  browser = await launchChromium()
  await demo.ready()
}, 120_000)

afterAll(async () => {
  await browser?.close()
  await demo?.stop()
})

interface Opened {
  readonly page: Page
  /** Texts of console errors, exceptions and refused content. */
  readonly faults: string[]
}

/** Opens the page, and waits for the run that it starts by itself. */
async function open(
  options: BrowserContextOptions = { viewport: WIDE },
  from: Demo = demo,
): Promise<Opened> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(error.message))
  await page.goto(from.url.replace('127.0.0.1', 'localhost'))
  await runEnds(page)
  return { page, faults }
}

async function runEnds(page: Page): Promise<void> {
  await page.waitForSelector('#lab[aria-busy=false]', { timeout: RUN_MS })
}

async function press(page: Page, fault: string): Promise<void> {
  await page.click(`button[value=${fault}]`)
  await page.waitForSelector('#lab[aria-busy=true]')
  await runEnds(page)
}

/** A figure of the three lanes: without a cache, with a cache per process, with Stampede. */
function figures(page: Page, name: string): Promise<number[]> {
  return page.$$eval(`.lane [data-${name}]`, (nodes) =>
    nodes.map((node) => Number(node.textContent?.replace(/\s/g, ''))),
  )
}

const verdict = (page: Page) => page.textContent('#verdict')

describe.each([
  ['a wide window', WIDE],
  ['a phone', PHONE],
])('the page on %s', { timeout: 180_000 }, (_, viewport) => {
  let page: Page
  let faults: string[]

  beforeAll(async () => {
    ;({ page, faults } = await open({ viewport }))
  }, 120_000)

  afterAll(() => page?.context().close())

  it('has name, promise, code and all numbers on the first screen, after a run by itself', async () => {
    expect(await page.textContent('h1')).toBe('Stampede')
    expect(await page.textContent('.promise')).toContain('one process in the whole fleet')
    expect(await page.textContent('.line')).toContain('stampedeCache({')
    expect(await figures(page, 'count')).toEqual([250, 3, 1])
    const parts = ['h1', '.promise', '.line', ...['none', 'per-process', 'stampede'].map(countOf)]
    for (const part of parts) {
      const box = await page.locator(part).boundingBox()
      expect((box?.y ?? Infinity) + (box?.height ?? 0), part).toBeLessThan(viewport.height)
    }
  })

  it('has no overflow, no console error and no axe finding, light and dark', async () => {
    await page.click('summary')
    await page.evaluate(axe.source)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      const root = 'document.documentElement'
      const overflow = await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`)
      expect(overflow).toBe(0)
      const { violations } = await page.evaluate<axe.AxeResults>(
        // The scheme changes only colours.
        colorScheme === 'light' ? 'axe.run()' : "axe.run({ runOnly: ['color-contrast'] })",
      )
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)
      expect(found, colorScheme).toEqual([])
    }
    expect(faults).toEqual([])
  })

  if (viewport === PHONE)
    it('scrolls at a button to the lanes, which are above the buttons', async () => {
      const topOf = async (part: string) => (await page.locator(part).boundingBox())?.y ?? Infinity
      await page.locator('button[value=none]').scrollIntoViewIfNeeded()
      expect(await topOf('#lab-title')).toBeLessThan(0)
      await press(page, 'none')
      await expect.poll(() => topOf('#lab-title')).toBeGreaterThanOrEqual(0)
      expect(await topOf('[data-lane=stampede]')).toBeLessThan(PHONE.height)
    })
})

const countOf = (lane: string) => `[data-lane=${lane}] [data-count]`

describe('the buttons', { timeout: 180_000 }, () => {
  let page: Page
  let faults: string[]

  beforeAll(async () => {
    ;({ page, faults } = await open())
    await page.check('input[name=requests][value="50"]')
  }, 120_000)

  afterAll(() => page?.context().close())

  it('Stampede runs one query per burst', async () => {
    await press(page, 'none')
    expect(await figures(page, 'count')).toEqual([50, 3, 1])
    expect(await figures(page, 'errors')).toEqual([0, 0, 0])
    expect(await verdict(page)).toContain(
      '50 queries without a cache, 3 with a cache per process, 1',
    )
    expect(await page.locator('.span.work').count()).toBe(1)
    expect(await page.locator('.span.wait').count()).toBeGreaterThanOrEqual(2)
  })

  it('Kill the holder lets another process take over', async () => {
    await press(page, 'kill')
    const [, , stampede] = await figures(page, 'count')
    expect(stampede).toBe(2)
    expect(await figures(page, 'errors')).toEqual([0, 0, 0])
    expect(await verdict(page)).toMatch(/Process \d took over after [\d.]+ m?s, when the lease/)
    expect(await page.locator('.mark.killed').count()).toBe(1)
  })

  it('Freeze the holder lets another process take over, and the late commit is refused', async () => {
    await press(page, 'freeze')
    const [, , stampede] = await figures(page, 'count')
    expect(stampede).toBe(2)
    expect(await verdict(page)).toMatch(
      /took over after .* The late commit of process \d was refused/,
    )
    expect(await page.locator('.mark.refused').count()).toBe(1)
    expect(await page.locator('.mark.commit').count()).toBe(1)
  })

  it('Freeze Redis costs one query per process, and no errors', async () => {
    await press(page, 'redis')
    const [, , stampede] = await figures(page, 'count')
    expect(stampede).toBe(3)
    expect(await figures(page, 'errors')).toEqual([0, 0, 0])
    expect(await page.locator('.span.unleased').count()).toBe(3)
  })

  it('Cut the bus still runs one query', async () => {
    await press(page, 'bus')
    expect(await figures(page, 'count')).toEqual([50, 3, 1])
    expect(await page.locator('.span.cut').count()).toBe(1)
  })

  it('Purge under load leaves old prices in a cache per process', async () => {
    await press(page, 'purge')
    const [none, perProcess = 0, stampede] = await figures(page, 'outdated')
    expect(none).toBe(0)
    expect(perProcess).toBeGreaterThan(0)
    // A purge reaches the other processes within milliseconds, and the promise is 5 s.
    expect(stampede).toBeLessThan(perProcess)
    expect(await page.locator('.mark.purged').count()).toBe(3)
  })

  it('Fail the origin serves stale responses, with one attempt of the fleet', async () => {
    await press(page, 'origin')
    expect(await figures(page, 'errors')).toEqual([50, 0, 0])
    const [, , stampede] = await figures(page, 'count')
    expect(stampede).toBe(1)
    expect(await page.locator('.dot.stale').count()).toBeGreaterThan(0)
  })

  it('keep the focus, and describe the run in words', async () => {
    await page.focus('button[value=none]')
    await page.keyboard.press('Enter')
    await page.waitForSelector('#lab[aria-busy=true]')
    await runEnds(page)
    expect(await page.getAttribute(':focus', 'value')).toBe('none')
    expect(await page.getAttribute('#verdict', 'role')).toBe('status')
    const words = await page.getAttribute('#timeline-drawing', 'aria-label')
    // Only this order is certain: a busy holder may hear of its lease after a waiter of its holder.
    expect(words).toMatch(/requests arrive\. .*Process (\d) gets the lease\. .*Process \1 stores/)
    expect(words).toMatch(/Process \d waits for the holder of the lease\./)
    await page.click('summary')
    expect(await page.locator('#timeline-story li').first().textContent()).toContain(
      'requests arrive',
    )
  })

  it('cause no error in the console', () => {
    expect(faults).toEqual([])
  })
})

describe('the page of a demo in one process', { timeout: 240_000 }, () => {
  it('compares no cache with Stampede without a timeline and faults, and says what is missing', async () => {
    const single = startDemo('shop-express', { PORT: String(await freePort()), PROCESSES: '1' })
    try {
      await single.ready()
      const { page, faults } = await open({ viewport: PHONE }, single)
      expect(await figures(page, 'count')).toEqual([250, 1])
      expect(await page.textContent('#verdict')).toMatch(/250 queries without a cache, 1 with/)
      expect(await page.textContent('#one-process')).toContain('runs in one process')
      expect(await page.locator('button[name=fault]:visible').count()).toBe(1)
      expect(await page.locator('#timeline').isVisible()).toBe(false)
      expect(faults).toEqual([])
      await page.context().close()
    } finally {
      await single.stop()
    }
  })
})

describe('a visitor who prefers no motion', { timeout: 180_000 }, () => {
  let page: Page
  let faults: string[]

  beforeAll(async () => {
    ;({ page, faults } = await open({ viewport: WIDE, reducedMotion: 'reduce' }))
  }, 120_000)

  afterAll(() => page?.context().close())

  it('sees the results', async () => {
    expect(await figures(page, 'count')).toEqual([250, 3, 1])
    expect(await page.locator('#timeline-drawing .mark.commit').count()).toBe(1)
  })

  it('places one order with twenty-one clicks with a key, over the processes', async () => {
    await page.click('#double-click-form button[type=submit]')
    const story = page.locator('#double-click-story')
    await story.filter({ hasText: 'clicks: 1 row' }).waitFor({ timeout: RUN_MS })
    expect(await page.textContent('.side.keyed [data-count]')).toBe('1')
    expect(await page.textContent('.side.unkeyed [data-count]')).toBe('21')
  })

  it('finds a dashboard of all processes', async () => {
    await page.click('nav a:text("Dashboard")')
    await page.getByText('Live').first().waitFor({ timeout: RUN_MS })
    const stats = await fetch(`${demo.url}/api/lab/stats`)
    const { fleet } = (await stats.json()) as { fleet: { processes: { pid: number }[] } }
    for (const { pid } of fleet.processes) {
      await page.getByText(`:${pid}`).first().waitFor({ timeout: RUN_MS })
    }
    expect(faults).toEqual([])
  })
})
