// Responses to one client that others must not get: fields for one caller, redirects that would
// loop, and a wrong Age.
import { expect, it } from 'vitest'
import { describeAttacks, get } from './setting.ts'

describeAttacks('a response to one client', ({ open }) => {
  it.each([
    ...['Authentication-Info', 'WWW-Authenticate', 'Authorization', 'X-Auth-Token'],
    ...['X-CSRF-Token', 'Clear-Site-Data', 'Set-Login'],
  ])('reaches other clients without its %s', async (name) => {
    await using target = await open('answers with a field for its caller')
    const path = `/${name.toLowerCase()}`
    const alice = await get(target.attacker, path, 'X-Caller: alice')
    expect(alice.headers[name.toLowerCase()]).toBe('for alice')
    expect(alice.headers['cache-status']).toContain('detail=credentials')
    const bob = await get(target.victim, path, 'X-Caller: bob')
    expect([bob.headers[name.toLowerCase()], bob.body]).toEqual(['for bob', 'hello bob'])
  })

  it.each([
    ['the host in capitals', 'SHOP.test', '/page', '/page'],
    ['parameters out of order', 'shop.test', '/page?b=1&a=2', '/page?a=2&b=1'],
    ['a bare ?', 'shop.test', '/page?', '/page'],
  ])(
    'causes no redirect loop for other clients after a request with %s',
    async (_, host, asked, led) => {
      await using target = await open('redirects to its canonical URL')
      const redirect = await get(target.attacker, asked, `Host: ${host}`)
      expect(redirect.headers.location).toBe(`http://shop.test${led}`)
      const page = await get(target.victim, led)
      expect([page.status, page.body]).toEqual([200, 'the page'])
      await target.stored()
      expect((await get(target.attacker, led)).headers['cache-status']).toContain('hit')
    },
  )

  it('has an Age counted from its head for other clients, even if its body took long', async () => {
    await using target = await open('answers with a slow body')
    await get(target.attacker, '/')
    await target.stored()
    const later = await get(target.victim, '/')
    expect([later.body, Number(later.headers.age) >= 1]).toEqual(['begun, ended', true])
    expect(later.headers['cache-status']).toContain('hit')
    expect(await target.runs()).toBe(1)
  })
})
