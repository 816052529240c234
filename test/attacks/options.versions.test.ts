// Options that SECURITY.md recommends. Each case shows the attack without the option, and that the
// option prevents it.
import { expect, it } from 'vitest'
import { describeAttacks, get, METHOD, raw } from './setting.ts'

const post = (url: string, path: string) =>
  raw(url, [`POST ${path} HTTP/1.1`, 'Host: shop.test', 'Connection: close', '', ''])

describeAttacks('the recommended option', ({ open }) => {
  it('query separates JSONP callbacks if it names the callback parameter', async () => {
    await using bare = await open('calls the callback of the query')
    await get(bare.attacker, '/?id=1&callback=evil')
    expect((await get(bare.attacker, '/?id=1&callback=own')).body).toBe('evil({})')
    await using target = await open('calls the callback of the query, which is in the key')
    await get(target.attacker, '/?id=1&callback=evil')
    expect((await get(target.attacker, '/?id=1&callback=own')).body).toBe('own({})')
    expect((await get(target.victim, '/?id=1&callback=own')).body).toBe('own({})')
  })

  it('cookies and authorization keep requests with made-up credentials away from the handler', async () => {
    const junk = ['Cookie: a=1', 'Cookie: b=2', 'X-Token: c', 'Authorization: d']
    await using bare = await open('prints Host')
    for (const line of junk) await get(bare.attacker, '/', line)
    expect(await bare.runs()).toBe(4)
    await using target = await open('ignores cookies and credentials')
    for (const line of junk) await get(target.attacker, '/', line)
    expect(await target.runs()).toBe(1)
  })

  it('cacheStatus: false hides when an entry expires', async () => {
    await using target = await open('says nothing of the cache')
    for (const _again of [1, 2]) {
      const { headers, body } = await get(target.attacker, '/')
      expect([body, headers['cache-status']]).toEqual(['page', undefined])
    }
    expect(await target.runs()).toBe(1)
  })

  const redirect = "invalidateOn: 'never' prevents an open redirect from purging a page"
  // The handler redirects each request that is no GET.
  it.skipIf(METHOD !== 'GET')(redirect, async () => {
    const runsAfter = async (name: string) => {
      await using target = await open(name)
      await get(target.victim, '/home')
      await target.stored()
      expect((await post(target.victim, '/login?next=/home')).headers.location).toBe('/home')
      await get(target.victim, '/home')
      return target.runs()
    }
    expect(await runsAfter('redirects to where a POST says')).toBe(3)
    expect(await runsAfter('redirects to where a POST says, which purges nothing')).toBe(2)
  })
})
