import { describe, expect, it } from 'vitest'
import { epochIn, Replies } from './sentinels.ts'

/** Replies of Sentinels that name these ports with these epochs. */
function replies(...named: Array<[port: number, epoch: number]>): Replies {
  const all = new Replies()
  for (const [port, epoch] of named) all.add({ master: { host: 'm', port }, epoch })
  return all
}

const portOf = (all: Replies) => all.newest?.master.port

describe('the master that counts', () => {
  it('is undefined without a reply', () => {
    expect(portOf(replies())).toBeUndefined()
    expect(replies().isEnough(1)).toBe(false)
  })

  it('has the greatest epoch, even if most Sentinels name another', () => {
    expect(portOf(replies([1, 3], [1, 3], [2, 4]))).toBe(2)
    expect(portOf(replies([2, 4], [1, -1], [1, -1]))).toBe(2)
  })

  it('is named by most Sentinels if the epochs are equal or unknown', () => {
    expect(portOf(replies([1, 4], [2, 4], [2, 4]))).toBe(2)
    expect(portOf(replies([1, -1], [2, -1], [2, -1]))).toBe(2)
    expect(portOf(replies([1, 0], [2, 0]))).toBe(1)
  })
})

describe('replies are enough', () => {
  it('when most Sentinels have replied, because one of them knows the latest fail-over', () => {
    expect(replies([1, 0]).isEnough(3)).toBe(false)
    expect(replies([1, 0], [1, 0]).isEnough(3)).toBe(true)
    expect(replies([1, 0], [2, 1]).isEnough(3)).toBe(true)
    expect(replies([1, 0], [2, 1]).isEnough(4)).toBe(false)
  })

  it('unless two masters have the greatest epoch', () => {
    expect(replies([1, 1], [2, 1]).isEnough(3)).toBe(false)
  })
})

it.each([
  [['name', 'shop', 'config-epoch', '7'], 7],
  [[Buffer.from('config-epoch'), Buffer.from('12')], 12],
  [{ name: 'shop', 'config-epoch': '3' }, 3],
  [['config-epoch'], -1],
  [['config-epoch', 'x'], -1],
  [[], -1],
  [null, -1],
])('epochIn(%j) is %i', (reply, epoch) => {
  expect(epochIn(reply)).toBe(epoch)
})
