import { describe, expect, it } from 'vitest'
import { areEnough, epochIn, type Named, newestOf } from './sentinels.ts'

/** Replies of Sentinels that name these ports with these epochs. */
function replies(...named: Array<[port: number, epoch: number]>): Named[] {
  return named.map(([port, epoch]) => ({ master: { host: 'm', port }, epoch }))
}

const portOf = (all: Named[]) => newestOf(all)?.master.port

describe('the master that counts', () => {
  it('is undefined without a reply', () => {
    expect(portOf(replies())).toBeUndefined()
    expect(areEnough(replies(), 1)).toBe(false)
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
    expect(areEnough(replies([1, 0]), 3)).toBe(false)
    expect(areEnough(replies([1, 0], [1, 0]), 3)).toBe(true)
    expect(areEnough(replies([1, 0], [2, 1]), 3)).toBe(true)
    expect(areEnough(replies([1, 0], [2, 1]), 4)).toBe(false)
  })

  it('unless two masters have the greatest epoch', () => {
    expect(areEnough(replies([1, 1], [2, 1]), 3)).toBe(false)
  })
})

it.each([
  [['name', 'shop', 'config-epoch', '7'], 7],
  [[Buffer.from('config-epoch'), Buffer.from('12')], 12],
  [['config-epoch'], -1],
  [['config-epoch', 'x'], -1],
  [[], -1],
  [null, -1],
])('epochIn(%j) is %i', (reply, epoch) => {
  expect(epochIn(reply)).toBe(epoch)
})
