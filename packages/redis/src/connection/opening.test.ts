import { describe, expect, it } from 'vitest'
import { Opening } from './opening.ts'

describe('connections that are opening', () => {
  it('make all callers wait until they are open', async () => {
    let open: () => void = () => {}
    const opening = new Opening(new Promise<void>((resolve) => (open = resolve)))
    const both = [opening.wait(60_000), opening.wait(60_000)]
    expect(opening.waiting).toBe(2)
    open()
    await Promise.all(both)
    await opening.wait(60_000)
    expect(opening.waiting).toBe(0)
  })

  it('keep no memory of callers that gave up', async () => {
    const opening = new Opening(new Promise(() => {}))
    await expect(opening.wait(5)).rejects.toThrow('no reply within 5 ms')
    expect(opening.waiting).toBe(0)
  })
})
