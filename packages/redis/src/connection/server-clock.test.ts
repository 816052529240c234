import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { ServerClock } from './servers.ts'

describe("the estimate of the server's clock", () => {
  it('is missing before the first reply, so that commands have no deadline', () => {
    expect(new ServerClock(new ManualClock()).notAfter(250)).toBe(0)
  })

  it('ignores invalid times', () => {
    const server = new ServerClock(new ManualClock())
    server.observe(Number.NaN, 0)
    expect(server.notAfter(250)).toBe(0)
    server.observe(1_000_000, 0)
    const before = server.notAfter(250)
    server.observe(Number.NaN, 0)
    expect(server.notAfter(250)).toBe(before)
  })

  it('never makes a lease appear longer than the server granted it', async () => {
    const clock = new ManualClock()
    const server = new ServerClock(clock)
    const sentAt = clock.now()
    await clock.advance(40)
    // The server read its clock somewhere in these 40 ms: at the earliest at the start, at the
    // latest just now.
    server.observe(1_000_000, sentAt)
    expect(server.atLeastUntil(1_000_500)).toBe(460)
    await clock.advance(100)
    expect(server.atLeastUntil(1_000_500)).toBe(360)
  })

  it('sets a deadline at which the server refuses no command that is within its time budget', async () => {
    const clock = new ManualClock()
    const server = new ServerClock(clock)
    const sentAt = clock.now()
    await clock.advance(40)
    // At the latest the server read its clock when the command was sent, so its clock is 40 ms
    // further now.
    server.observe(1_000_000, sentAt)
    expect(server.notAfter(250)).toBe(1_000_040 + 250)
  })

  it('becomes more precise after a fast reply, and not less precise after a slow one', async () => {
    const clock = new ManualClock()
    const server = new ServerClock(clock)
    let sentAt = clock.now()
    await clock.advance(40)
    server.observe(1_000_040, sentAt)
    sentAt = clock.now()
    await clock.advance(2)
    server.observe(1_000_042, sentAt)
    expect(server.atLeastUntil(1_000_542)).toBe(498)
    sentAt = clock.now()
    await clock.advance(300)
    server.observe(1_000_342, sentAt)
    expect(server.atLeastUntil(1_000_842)).toBe(498)
  })

  it("follows the server's clock after that clock was set", async () => {
    const clock = new ManualClock()
    const server = new ServerClock(clock)
    server.observe(1_000_000, clock.now())
    server.observe(5_000_000, clock.now())
    expect(server.atLeastUntil(5_000_100)).toBe(100)
    server.observe(900_000, clock.now())
    expect(server.atLeastUntil(900_100)).toBe(100)
    expect(server.notAfter(250)).toBe(900_250)
  })
})
