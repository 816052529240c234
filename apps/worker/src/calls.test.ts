import { describe, expect, it } from 'vitest'
import { createCaller, serve } from './calls.ts'
import { portPair } from './testing/port-pair.ts'

type Arithmetic = {
  next(n: bigint): bigint
  half(n: number): Promise<number>
}

function connect() {
  const [here, there] = portPair()
  serve<Arithmetic>(there, {
    next: (n) => n + 1n,
    async half(n) {
      if (n % 2 === 1) throw new Error(`${n} is odd`)
      return n / 2
    },
  })
  return createCaller<Arithmetic>(here)
}

describe('calls', () => {
  it('return each caller the result of its own call', async () => {
    const call = connect()
    const answers = await Promise.all([call('half', 8), call('next', 2n ** 60n), call('half', 2)])
    expect(answers).toEqual([4, 2n ** 60n + 1n, 1])
  })

  it('reject with the error of the service, and go on', async () => {
    const call = connect()
    await expect(call('half', 3)).rejects.toThrow('3 is odd')
    await expect(call('half', 4)).resolves.toBe(2)
  })

  it('reject for an unknown service', async () => {
    const call = connect()
    await expect(call('toString' as 'half', 3)).rejects.toThrow('no service named toString')
  })
})
