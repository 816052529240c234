// Two attacks on any cache: a forged X-Forwarded-Host, and a cookie that names the caller.
import { expect, it } from 'vitest'
import { describeAttacks, get } from './setting.ts'

describeAttacks('a request of one client', ({ open }) => {
  it('changes nothing for other clients when it forges X-Forwarded-Host', async () => {
    await using target = await open('prints X-Forwarded-Host')
    const planted = await get(target.attacker, '/', 'X-Forwarded-Host: evil.test')
    expect(planted.body).toContain('//evil.test/')
    const served = await get(target.victim, '/')
    expect(served.body).not.toContain('evil.test')
    await target.stored()
    expect((await get(target.attacker, '/')).headers['cache-status']).toContain('hit')
    expect(await target.runs()).toBe(2)
  })

  it('gets a response to its cookie that no other client gets', async () => {
    await using target = await open('greets the cookie')
    expect((await get(target.attacker, '/', 'Cookie: name=eve')).body).toBe('hello name=eve')
    expect((await get(target.victim, '/')).body).toBe('hello undefined')
    expect((await get(target.victim, '/', 'Cookie: name=bob')).body).toBe('hello name=bob')
  })
})
