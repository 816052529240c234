import { describe, expect, it } from 'vitest'
import { type Delivery, Queue } from './queue.ts'

async function take(queue: Queue, worker: string): Promise<Delivery> {
  const delivery = await queue.take(worker)
  if (delivery === undefined) throw new Error('the queue is over')
  return delivery
}

describe('the queue', () => {
  it('delivers every job as often as it has copies, to any worker', async () => {
    const queue = new Queue([1, 2], 2)
    const jobs = []
    for (const worker of ['a', 'b', 'c', 'd']) jobs.push((await take(queue, worker)).job)
    expect(jobs).toEqual([1, 1, 2, 2])
    expect([...queue.deliveries]).toEqual([
      [1, 2],
      [2, 2],
    ])
  })

  it('is over only when every delivery is settled', async () => {
    const queue = new Queue([1], 1)
    const delivery = await take(queue, 'a')
    let isOver = false
    const next = queue.take('b').then((value) => {
      isOver = true
      return value
    })
    await Promise.resolve()
    expect(isOver).toBe(false)
    queue.settle(delivery)
    expect(await next).toBeUndefined()
  })

  it('delivers a job again that a worker gave back', async () => {
    const queue = new Queue([1], 1)
    queue.settle(await take(queue, 'a'), true)
    const again = await take(queue, 'b')
    expect(again.job).toBe(1)
    queue.settle(again)
    expect(await queue.take('b')).toBeUndefined()
    expect(queue.deliveries.get(1)).toBe(2)
  })

  it('gives no delivery to a worker that leaves, and gives the job to another worker', async () => {
    const queue = new Queue([1], 1)
    const first = await take(queue, 'a')
    const [leaving, staying] = [queue.take('b'), queue.take('c')]
    queue.dismiss('b')
    expect(await leaving).toBeUndefined()
    queue.settle(first, true)
    expect((await staying)?.job).toBe(1)
  })

  it('delivers the job of a lost worker again, and ignores a late settle of that worker', async () => {
    const queue = new Queue([1, 2], 1)
    const first = await take(queue, 'a')
    const second = await take(queue, 'b')
    expect(queue.lose('a')).toEqual([1])
    const again = await take(queue, 'b')
    expect(again.job).toBe(1)
    queue.settle(first, true)
    queue.settle(second)
    queue.settle(again)
    expect(await queue.take('b')).toBeUndefined()
    expect(queue.deliveries.get(1)).toBe(2)
  })
})
