import { createStampede, type MemoryStore, memoryStore } from '@stampede/core'
import { readReport } from '@stampede/operate'
import { describe, expect, it, onTestFinished } from 'vitest'
import { BUCKET_MS, History } from './history.ts'
import { LockWatch, type WatchedLocks } from './lock-watch.ts'
import { Reporter } from './reporter.ts'

function start(store: MemoryStore = memoryStore()) {
  const stampede = createStampede({ store })
  const reporter = new Reporter({ stampede, locks: undefined, showKeys: true })
  onTestFinished(async () => {
    await reporter.close()
    await stampede.close()
  })
  const reports = async () =>
    [...(await store.operator.reports()).values()].map((text) => readReport(text))
  return { stampede, reporter, reports }
}

describe('a reporter', () => {
  it('reports at once, and says that it is closed', async () => {
    const { reporter, reports } = start()
    await expect
      .poll(reports)
      .toMatchObject([{ id: reporter.observer.id, pid: process.pid, bye: false }])
    await reporter.close()
    expect(await reports()).toMatchObject([{ id: reporter.observer.id, bye: true }])
  })
})

describe('the history', () => {
  it('counts each bucket by itself, and is bounded', () => {
    const { stampede } = start()
    const history = new History(stampede.stats())
    const stats = stampede.stats()
    const at = 1_000 * BUCKET_MS
    history.sample({ ...stats, misses: 3 }, at)
    history.sample({ ...stats, misses: 5 }, at + 2 * BUCKET_MS)
    const view = history.view()
    expect([view.endAt, view.series.miss]).toEqual([at + 2 * BUCKET_MS, [3, 0, 2]])
    for (let i = 3; i < 500; i++) history.sample({ ...stats, misses: 5 }, at + i * BUCKET_MS)
    expect(history.view().series.miss.length).toBe(120)
  })
})

describe('locks', () => {
  it('are listed while they are held', () => {
    let emit: Parameters<NonNullable<WatchedLocks['on']>>[1] = () => {}
    const locks: WatchedLocks = {
      stats: () => ({ acquired: 2 }),
      on: (_, listener) => {
        emit = listener
        return () => {}
      },
    }
    const watch = new LockWatch(locks)
    const names = () => watch.report(true).held.map(({ key, fence }) => `${key} ${fence}`)
    emit({ type: 'lock.acquired', key: 'a', internalKey: 'a', fence: 1n })
    emit({ type: 'lock.acquired', key: 'b', internalKey: 'b' })
    emit({ type: 'lock.contended', key: 'c', internalKey: 'c' })
    expect(names()).toEqual(['a 1', 'b '])
    emit({ type: 'lock.released', key: 'a', internalKey: 'a', fence: 1n })
    emit({ type: 'lock.lost', key: 'b', internalKey: 'b' })
    expect(names()).toEqual([])
  })
})
