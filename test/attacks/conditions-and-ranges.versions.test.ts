// Attacks with conditions and ranges, which the cache hides from the handler and answers itself.
import { expect, it } from 'vitest'
import { describeAttacks, get } from './setting.ts'

const FAR = 'Range: bytes=99999999999999999999999999999999-'
const LINES = [
  'Range: bytes=0-0',
  'Range: bytes=9-',
  'Range: bytes=10-',
  'Range: bytes=-0',
  'Range: bytes=0-1,3-4',
  'Range: bytes=00000000000000000000000-99999999999999999999999',
  FAR,
  'Range: bytes=-1e9',
  'If-None-Match: *',
  'If-None-Match: "v1"',
  'If-None-Match: W/"v1", "',
  'If-Range: "v1"\r\nRange: bytes=1-2',
  'If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT',
  'Range: bytes=0-0\r\nRange: bytes=3-',
  'Range: bytes=2-3\r\nIf-None-Match: "v2"',
]

describeAttacks('a hidden header of one client', ({ open }) => {
  it('does not change the response that other clients get', async () => {
    await using target = await open('serves ten digits')
    for (const [i, line] of LINES.entries()) {
      const planted = await get(target.attacker, `/${i}`, line)
      expect([200, 206, 304, 416], line).toContain(planted.status)
      // The handler gets a range far beyond any stored body, or of the last bytes. So its response
      // is not stored.
      const isFar = line === FAR || line.startsWith('Range: bytes=-')
      if (isFar) expect(planted.headers['cache-status'], line).not.toContain('stored')
      else expect(planted.headers['cache-status'], line).toContain('stored')
      if (isFar) await get(target.victim, `/${i}`)
      await target.stored()
      const served = await get(target.victim, `/${i}`)
      expect([served.status, served.body], line).toEqual([200, '0123456789'])
      expect(served.headers, line).toMatchObject({ 'content-length': '10' })
      expect(served.headers, line).not.toHaveProperty('content-range')
      expect(String(served.headers['cache-control']), line).not.toContain('no-transform')
      expect(served.headers['cache-status'], line).toContain('hit')
    }
    expect(await target.runs()).toBe(LINES.length + 3)
  })

  it('does not make a personal response shareable', async () => {
    await using target = await open('serves ten digits')
    for (const [i, line] of LINES.entries()) {
      const own = await get(target.attacker, `/own${i}`, line)
      expect(own.headers, line).toMatchObject({ 'set-cookie': 'id=1' })
      const other = await get(target.victim, `/own${i}`)
      expect([other.status, other.body], line).toEqual([200, '0123456789'])
      expect(other.headers['cache-status'], line).not.toContain('hit;')
    }
    expect(await target.runs()).toBe(2 * LINES.length)
  })
})
