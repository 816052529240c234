// One body with several readers: each gets every byte, or sees that it broke off.

import { describe, expect, it } from 'vitest'
import { LiveBody, type LiveReader } from './live-body.ts'

const bytes = (text: string) => Buffer.from(text)

/** Everything a reader gets, up to the end or the break. */
async function all(reader: LiveReader | undefined): Promise<string> {
  if (reader === undefined) return 'not attached'
  let text = ''
  try {
    for (let next = await reader.next(); !next.done; next = await reader.next())
      text += Buffer.from(next.value).toString()
    return `${text}.`
  } catch {
    return `${text}!`
  }
}

async function take(reader: LiveReader | undefined): Promise<string> {
  const { value } = (await reader?.next()) ?? {}
  return value === undefined ? '' : Buffer.from(value).toString()
}

describe('a live body', () => {
  it('reaches each reader in full from its start, also later readers', async () => {
    const body = new LiveBody(100)
    expect(body.isJoinable).toBe(false)
    const early = all(body.attach())
    body.write(bytes('one '))
    expect(body.isJoinable).toBe(true)
    const late = all(body.attach())
    body.write(bytes('two'))
    body.end(true)
    expect(body.isJoinable).toBe(false)
    expect(body.attach()).toBeUndefined()
    expect(await Promise.all([early, late])).toEqual(['one two.', 'one two.'])
  })

  it('lets each reader read at its own pace, also after the end', async () => {
    const body = new LiveBody(100)
    const [slow, fast] = [body.attach(), all(body.attach())]
    for (const text of ['a', 'b', 'c']) body.write(bytes(text))
    body.end(true)
    expect(await fast).toBe('abc.')
    expect(await all(slow)).toBe('abc.')
  })

  it('breaks for every reader when it is cut, even in the middle of a wait', async () => {
    const body = new LiveBody(100)
    const [waiting, behind] = [all(body.attach()), body.attach()]
    body.write(bytes('half'))
    await new Promise(setImmediate)
    body.end(false)
    expect(await waiting).toBe('half!')
    expect(behind?.isCut).toBe(true)
    expect(await all(behind)).toBe('!')
    expect(body.write(bytes('more'))).toBe(false)
  })

  it.each([
    ['fewer', ['12345678'], '12345678!'],
    ['more', ['123456789', 'ab'], '123456789!'],
    ['as many', ['12345', '67890'], '1234567890.'],
  ])(
    'keeps the declared length or breaks off (bytes in its chunks: %s)',
    async (_, chunks, got) => {
      const body = new LiveBody(100, 10)
      const read = all(body.attach())
      for (const chunk of chunks) {
        body.write(bytes(chunk))
        await new Promise(setImmediate)
      }
      body.end(true)
      expect(await read).toBe(got)
    },
  )
})

describe('a live body that is too large to be stored', () => {
  it('continues for its readers, and accepts no new ones', async () => {
    const body = new LiveBody(4)
    const read = all(body.attach())
    for (const text of ['abc', 'def', 'ghi']) {
      expect(body.write(bytes(text))).toBe(true)
      await new Promise(setImmediate)
    }
    expect(body.isJoinable).toBe(false)
    expect(body.attach()).toBeUndefined()
    body.end(true)
    expect(await read).toBe('abcdefghi.')
  })

  it('cuts off a reader that falls further behind than the limit, and no other', async () => {
    const body = new LiveBody(4)
    const [slow, fast] = [body.attach(), all(body.attach())]
    body.write(bytes('abc'))
    await new Promise(setImmediate)
    expect(await take(slow)).toBe('abc')
    body.write(bytes('def'))
    await new Promise(setImmediate)
    expect(slow?.isCut).toBe(false)
    body.write(bytes('ghi'))
    expect(slow?.isCut).toBe(true)
    body.end(true)
    expect(await all(slow)).toBe('!')
    expect(await fast).toBe('abcdefghi.')
  })

  it('does not cut off a reader that waits for a chunk which is too large by itself', async () => {
    const body = new LiveBody(4)
    const read = all(body.attach())
    body.write(bytes('abc'))
    await new Promise(setImmediate)
    body.write(bytes('a large one'))
    body.end(true)
    expect(await read).toBe('abca large one.')
  })

  it('returns false from write() after the last reader left', async () => {
    const body = new LiveBody(4)
    const reader = body.attach()
    body.write(bytes('abc'))
    await take(reader)
    expect(body.write(bytes('def'))).toBe(true)
    reader?.return()
    expect(body.hasReaders).toBe(false)
    expect(body.write(bytes('ghi'))).toBe(false)
  })
})
