import { describe, expect, it } from 'vitest'
import { Opening } from './opening.ts'

describe('connections that are opening', () => {
  it('are waited for by all callers until they are open, and not afterwards', async () => {
    let open: () => void = () => {}
    const opening = new Opening(new Promise<void>((resolve) => (open = resolve)))
    const both = [opening.within(60_000), opening.within(60_000)]
    expect(opening.waiting).toBe(2)
    open()
    await Promise.all(both)
    await opening.within(60_000)
    expect(opening.waiting).toBe(0)
  })

  it('keep no memory of callers if they never open', async () => {
    const opening = new Opening(new Promise(() => {}))
    await expect(opening.within(5)).rejects.toThrow('no answer within 5 ms')
    expect(opening.waiting).toBe(0)
  })
})
