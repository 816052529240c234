// Denial of service by one client: it leaves, sends an odd header, gets a personal response, or
// makes up variants. All others must still get the page.
import { request } from 'node:http'
import { setTimeout as after } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { waitUntil } from '../harness/wait-until.ts'
import { type Attacked, BODY, BODY_FIELDS, describeAttacks, get, METHOD } from './setting.ts'

/** A GET whose client can leave before the response. */
function visit(url: string, path: string): { leave(): void } {
  const headers = { host: 'shop.test', 'x-slow': 'yes', ...BODY_FIELDS }
  const sent = request(`${url}${path}`, { method: METHOD, agent: false, headers })
  sent.on('error', () => {}).end(BODY)
  return { leave: () => sent.destroy() }
}

const reached = (target: Attacked, runs: number): Promise<void> =>
  waitUntil(`${runs} runs`, async () => (await target.runs()) >= runs)

describeAttacks('a client', ({ open }) => {
  it('makes no waiter fail by leaving while the handler aborts on close', async () => {
    await using target = await open('aborts on close')
    const attacker = visit(target.attacker, '/')
    await reached(target, 1)
    const victims = [target.attacker, target.victim, target.victim].map((url) => get(url, '/'))
    await after(300)
    attacker.leave()
    for (const { status, body } of await Promise.all(victims)) {
      expect([status, body]).toEqual([200, 'page'])
    }
    expect(await target.runs()).toBe(2)
  })

  it('makes no other request fail by a header that makes the handler throw', async () => {
    await using target = await open('formats for a language')
    const odd = Array.from({ length: 3 }, () => get(target.attacker, '/', 'Accept-Language: x_x'))
    await reached(target, 1)
    const asking = (url: string) => get(url, '/', 'Accept-Language: en')
    const victims = [target.attacker, target.victim, target.victim].map(asking)
    for (const { status, body } of await Promise.all(victims)) {
      expect([status, body]).toEqual([200, 'for en'])
    }
    for (const { status } of await Promise.all(odd)) expect(status).toBe(500)
    expect(await target.runs()).toBe(2)
  })

  it('releases no waiters of any process by a status that its own header causes', async () => {
    await using target = await open('answers with the status of X-Odd')
    const odd = get(target.attacker, '/', 'X-Odd: 403')
    await reached(target, 1)
    const urls = Array.from({ length: 30 }, () => [target.attacker, target.victim]).flat()
    const victims = await Promise.all(urls.map((url) => get(url, '/')))
    for (const { status, body } of victims) expect([status, body]).toEqual([200, 'page'])
    expect((await odd).status).toBe(403)
    expect(await target.runs()).toBe(2)
  })

  it.each([
    ['503', () => ''],
    ['429', (round: number) => ` ${round}`],
  ])('pins no stale page by refreshes that fail with %s', async (odd, suffix) => {
    await using target = await open('fails for X-Odd')
    const { body: old } = await get(target.victim, '/')
    await target.stored()
    await get(target.attacker, '/')
    await after(300)
    const staleAt = performance.now()
    let page = old
    for (let round = 0; page === old; round++) {
      await get(target.attacker, '/', `X-Odd: ${odd}${suffix(round)}`)
      await after(20)
      if (round % 8 === 7) page = (await get(target.victim, '/')).body
      expect(performance.now() - staleAt).toBeLessThan(30_000)
      expect(round).toBeLessThan(100)
    }
    const seconds = (performance.now() - staleAt) / 1_000
    expect(await target.runs()).toBeLessThanOrEqual(4 + 4 * seconds)
  })

  it('makes no later request fail after a header that made the handler throw', async () => {
    await using target = await open('formats for a language')
    const asking = (url: string, language: string) => get(url, '/', `Accept-Language: ${language}`)
    const odd = [target.attacker, target.attacker, target.victim]
    for (const { status } of await Promise.all(odd.map((url) => asking(url, 'x_x')))) {
      expect(status).toBe(500)
    }
    // Still within the back-off of the failure.
    expect(await asking(target.victim, 'en')).toMatchObject({ status: 200, body: 'for en' })
    expect(await asking(target.attacker, 'x_x')).toMatchObject({ status: 200, body: 'for en' })
    expect(await target.runs()).toBe(2)
  })

  it('does not disable the cache for other clients by getting a cookie', async () => {
    await using target = await open('sets a cookie for X-Start')
    const personal = await get(target.attacker, '/', 'X-Start: yes')
    expect(personal.headers['set-cookie']).toBe('session=1')
    const first = await get(target.victim, '/')
    expect(first.headers).not.toHaveProperty('set-cookie')
    await target.stored()
    const runs = await target.runs()
    expect((await get(target.attacker, '/')).headers['cache-status']).toContain('hit')
    expect((await get(target.victim, '/')).headers['cache-status']).toContain('hit')
    expect(await target.runs()).toBe(runs)
  })

  it('leaves room for real variants even if it makes up values of a Vary field', async () => {
    await using target = await open('varies by X-Made-Up')
    for (let i = 0; i < 80; i++) await get(target.attacker, '/', `X-Made-Up: ${i}`)
    for (const _ of [1, 2]) {
      expect((await get(target.attacker, '/', 'X-Made-Up: real')).body).toBe('for real')
    }
    await target.stored()
    const again = await get(target.victim, '/', 'X-Made-Up: real')
    expect(again.headers['cache-status']).toContain('hit')
    expect(await target.runs()).toBe(81)
  })
})
