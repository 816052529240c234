import { ManualClock } from '@stampede/core/testing'
import { expect, it } from 'vitest'
import { Servers } from './servers.ts'

it('the circuit breaker and the clock estimate of each server are kept separately', () => {
  const manual = new ManualClock()
  const servers = new Servers(manual)
  const [one, two] = [servers.get('a:1'), servers.get('b:1')]
  for (let i = 0; i < 3; i++) one.breaker.failed()
  expect([one.breaker.mayTry(), two.breaker.mayTry()]).toEqual([false, true])
  // An hour apart, so a deadline in time for one is long past for the other.
  one.clock.observe(5_000_000, manual.now())
  two.clock.observe(8_600_000, manual.now())
  expect([one.clock.notAfter(250), two.clock.notAfter(250)]).toEqual([5_000_250, 8_600_250])
  expect(servers.get('a:1')).toBe(one)
})

it('the state of the servers that were used longest ago is dropped beyond a limit', () => {
  const servers = new Servers(new ManualClock())
  const first = servers.get('0')
  for (let i = 1; i <= 2_000; i++) servers.get(`${i}`)
  expect(servers.get('0')).not.toBe(first)
})
