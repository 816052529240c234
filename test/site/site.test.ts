// The docs site as `npm run docs:build` writes it: its links, and its pages in Chromium.

import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import axe from 'axe-core'
import express from 'express'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { groups, REPOSITORY } from '../../tools/site/pages.mjs'
import { TOPICS } from '../../tools/site/search.mjs'
import { listen, type RunningApp } from '../harness/apps.ts'
import { launchChromium } from '../harness/chromium.ts'
import { waitUntil } from '../harness/wait-until.ts'
import { FRESH_FOUND, FRESH_TASKS, KNOWN_TASKS } from './tasks.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SITE = join(ROOT, 'tools/site/dist')
/** Path of the published site, under which GitHub Pages has the pages of a project. */
const BASE = '/stampede'
const WIDE = { width: 1280, height: 800 }
const PHONE = { width: 390, height: 844 }
const BUILD_MS = 600_000
/** Blocks of code of the guides that may need a horizontal scroll in a window of 1280 px. */
const CUT_BLOCKS = 20

/** A task without a right page takes this long, so it is far more than a search takes. */
const TASK_MS = 20_000

/** HTML of each page, by its path on the site. */
let pages: Map<string, string>

/** Output of the build, which fails on a dead link or a public name without a docstring. */
function build(): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['tools/site/run.mjs', 'build', '--base', `${BASE}/`], {
      cwd: ROOT,
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text
      })
    }
    child.on('close', (code) => (code === 0 ? resolve(output) : reject(new Error(output))))
  })
}

beforeAll(async () => {
  await build()
  const paths = readdirSync(SITE, { recursive: true, encoding: 'utf8' })
  const found = paths.filter((path) => path.endsWith('.html') && path !== '404.html')
  pages = new Map(found.map((path) => [`/${path}`, readFileSync(join(SITE, path), 'utf8')]))
}, BUILD_MS)

const all = (html: string, pattern: RegExp): string[] =>
  [...html.matchAll(pattern)].map(([, value = '']) => value)

describe('each page', () => {
  it('has a title and one main heading', () => {
    expect(pages.size).toBeGreaterThan(90)
    const faults = [...pages].filter(
      ([, html]) =>
        !/<title>\S.*<\/title>/.test(html) || all(html, /<h1[ >]([\s\S]*?)<\/h1>/g).length !== 1,
    )
    expect(faults.map(([path]) => path)).toEqual([])
  })

  it('has its own title and description', () => {
    for (const pattern of [/<title>(.*?)<\/title>/g, /<meta name="description" content="(.*?)"/g]) {
      const texts = [...pages].map(([path, html]) => all(html, pattern)[0] ?? `none on ${path}`)
      const repeated = texts.filter((text, at) => texts.indexOf(text) !== at)
      expect(repeated.filter((text) => !/^(Written by|Each page)/.test(text))).toEqual([])
    }
  })

  it('is in one sidebar', () => {
    const links = groups().flatMap(({ items }) => items.map(({ link }) => link))
    const listed = links.map((link) => link.replace(/\.md$/, '.html')).sort()
    expect(listed).toEqual([...pages.keys()].filter((path) => path !== '/index.html').sort())
  })

  it('is in the sidebar of users only if it is written for them', () => {
    const users = groups().filter(({ bar }) => bar === 'manual')
    const links = users.flatMap(({ items }) => items.map(({ link }) => link))
    expect(links.length).toBeGreaterThan(30)
    expect(links.filter((link) => /^\/(evidence|decisions)\//.test(link))).toEqual([])
    expect([...pages.keys()].filter((path) => path.startsWith('/evidence/')).length).toBe(10)
  })

  it('has only links to pages, headings and files that exist', () => {
    const ids = new Map(
      [...pages].map(([path, html]) => [path, new Set(all(html, / id="([^"]+)"/g))]),
    )
    const faultOf = (from: string, href: string): string | undefined => {
      const url = new URL(href.replaceAll('&amp;', '&'), `http://site${BASE}${from}`)
      const file = url.href.startsWith(REPOSITORY)
        ? /\/(?:blob|tree|edit)\/main\/([^#?]*)/.exec(url.href)?.[1]
        : undefined
      if (file !== undefined && !existsSync(join(ROOT, decodeURI(file)))) return 'no such file'
      if (url.host !== 'site') return undefined
      if (!url.pathname.startsWith(`${BASE}/`)) return 'outside of the base'
      const path = url.pathname.slice(BASE.length).replace(/\/$/, '/index.html')
      if (!pages.has(path)) return existsSync(join(SITE, path)) ? undefined : 'no such page'
      const anchor = decodeURIComponent(url.hash.slice(1))
      return anchor === '' || ids.get(path)?.has(anchor) ? undefined : 'no such heading'
    }
    const links = [...pages].flatMap(([from, html]) =>
      all(html, /<(?:a|link)\b[^>]* href="([^"]+)"/g).map((href) => [from, href] as const),
    )
    const faults = links.flatMap(([from, href]) => {
      const fault = faultOf(from, href)
      return fault === undefined ? [] : `${from} links to ${href}: ${fault}`
    })
    expect(links.length).toBeGreaterThan(1_000)
    expect(faults).toEqual([])
  })
})

describe('in a browser', { timeout: 120_000 }, () => {
  let browser: Browser
  let server: RunningApp
  /** Requests to other hosts, errors of the console, responses that failed. */
  let faults: string[]

  beforeAll(async () => {
    browser = await launchChromium()
    server = await listen(express().use(BASE, express.static(SITE, { redirect: false })))
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
    await server?.[Symbol.asyncDispose]()
  })

  async function open(path: string, viewport = WIDE): Promise<Page> {
    faults = []
    const context = await browser.newContext({ viewport, reducedMotion: 'reduce' })
    const page = await context.newPage()
    page.on('request', (request) => {
      if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(server.url))
        faults.push(`request to ${request.url()}`)
    })
    page.on('response', (response) => {
      if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`)
    })
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) faults.push(message.text())
    })
    page.on('pageerror', (error) => faults.push(error.message))
    await page.goto(server.url + BASE + path, { waitUntil: 'networkidle' })
    return page
  }

  /** One page of each kind, each in one window. The landing page is unlike the others: in both. */
  const kinds = [
    ['/index.html', 'a wide window', WIDE],
    ['/index.html', 'a phone', PHONE],
    ['/guide/nest.html', 'a wide window', WIDE],
    ['/guide/redis-topologies.html', 'a phone', PHONE],
    ['/compare.html', 'a phone', PHONE],
    ['/api/express.html', 'a wide window', WIDE],
  ] as const

  it.each(kinds)(
    'has no axe finding and no overflow in %s on %s, light and dark',
    async (path, _, viewport) => {
      const page = await open(path, viewport)
      await page.evaluate(axe.source)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        await page.waitForSelector(colorScheme === 'dark' ? 'html.dark' : 'html:not(.dark)', {
          state: 'attached',
        })
        const { violations } = await page.evaluate<axe.AxeResults>(
          // The scheme changes only colours.
          colorScheme === 'light' ? 'axe.run()' : "axe.run({ runOnly: ['color-contrast'] })",
        )
        const found = violations.map(({ id, nodes }) => [
          id,
          nodes[0]?.target,
          nodes[0]?.any[0]?.message,
        ])
        expect(found, colorScheme).toEqual([])
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect(overflow).toBeLessThanOrEqual(0)
      }
      expect(faults).toEqual([])
      await page.context().close()
    },
  )

  it('finds a right page among the first three results of tasks', {
    timeout: 300_000,
  }, async () => {
    const page = await open('/guide/locks.html')
    const box = page.getByRole('searchbox')
    // The key has an effect as soon as the scripts of the page run.
    const isOpen = async () => {
      if (await box.isVisible()) return true
      await page.keyboard.press('/')
      return false
    }
    await waitUntil('the search', isOpen, 60_000)
    const results = page.getByRole('option').locator('a')
    const firstThree = async (): Promise<string[]> => {
      const links = await results.evaluateAll((all) =>
        all.slice(0, 3).map((a) => a.getAttribute('href')),
      )
      return links.map((href) => (href ?? '').slice(BASE.length + 1).replace(/\.html.*$/, ''))
    }
    const missedOf = async (tasks: typeof KNOWN_TASKS): Promise<string[]> => {
      const missed: string[] = []
      for (const [task, ...topics] of tasks) {
        const isRight = (path: string) => topics.some((topic) => TOPICS[topic]?.pages.test(path))
        await box.fill(task)
        const search = waitUntil(task, async () => (await firstThree()).some(isRight), TASK_MS)
        await search.catch(async () => missed.push(`${task}: ${await firstThree()}`))
      }
      return missed
    }
    const missed = await missedOf(FRESH_TASKS)
    const most = FRESH_TASKS.length - FRESH_FOUND
    expect(missed.length, missed.join('\n')).toBeLessThanOrEqual(most)
    expect(await missedOf(KNOWN_TASKS)).toEqual([])
    await results.first().click()
    await page.waitForURL((url) => url.pathname === `${BASE}/guide/idempotency.html`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('shows nearly all blocks of code of the guides without a scroll', async () => {
    // The pages are complete without their scripts.
    const context = await browser.newContext({ viewport: WIDE, javaScriptEnabled: false })
    const page = await context.newPage()
    const paths = [...pages.keys()].filter((path) =>
      /^\/(start|guide|recipes|migrate)\//.test(path),
    )
    const cut: string[] = []
    let blocks = 0
    for (const path of paths) {
      await page.goto(server.url + BASE + path, { waitUntil: 'domcontentloaded' })
      const hidden = await page
        .locator('.vp-doc div[class*="language-"] pre')
        .evaluateAll((all) => all.map((pre) => pre.scrollWidth - pre.clientWidth))
      blocks += hidden.length
      for (const px of hidden) if (px > 0) cut.push(`${path}: ${px} px`)
    }
    expect(blocks).toBeGreaterThan(120)
    expect(cut.length, cut.join('\n')).toBeLessThanOrEqual(CUT_BLOCKS)
    await context.close()
  })

  it('has the typefaces and the icon of the dashboard and the lab', async () => {
    const page = await open('/guide/locks.html')
    const [base, heading] = await page.evaluate<[boolean, boolean]>(`
      [['body', '--sans'], ['h1', '--serif']].map(([of, name]) => {
        const probe = document.body.appendChild(document.createElement('span'))
        probe.style.fontFamily = 'var(' + name + ')'
        const family = (element) => getComputedStyle(element).fontFamily
        return family(document.querySelector(of)) === family(probe)
      })`)
    expect({ base, heading }).toEqual({ base: true, heading: true })
    const icons = ['tools/site/public/logo', 'packages/dashboard/ui/icon', 'apps/shop/public/icon']
    const [logo, ...others] = icons.map((icon) => readFileSync(join(ROOT, `${icon}.svg`), 'utf8'))
    expect(others).toEqual([logo, logo])
    await page.context().close()
  })

  it('lets the reader change the colour scheme and the page', async () => {
    const page = await open('/index.html')
    await page.getByRole('switch').first().click()
    expect(await page.locator('html').getAttribute('class')).toContain('dark')
    await page.getByRole('link', { name: 'Get started' }).click()
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.waitForURL((url) => url.pathname === `${BASE}/start/express.html`)
    expect(await page.locator('.VPNavBarMenu .active').textContent()).toContain('Guide')
    expect(faults).toEqual([])
    await page.context().close()
  })
})
