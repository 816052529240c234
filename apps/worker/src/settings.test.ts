import { describe, expect, it } from 'vitest'
import { checkRedis, readSettings, StartError } from './settings.ts'

function refusal(env: Record<string, string>, platform: NodeJS.Platform = 'linux'): string {
  try {
    readSettings(env, platform)
  } catch (error) {
    if (error instanceof StartError) return error.message
  }
  return 'accepted'
}

describe('readSettings', () => {
  it('returns the defaults if no variable is set, or if all are empty', () => {
    const defaults = { redisUrl: undefined, fenced: true }
    expect(readSettings({}, 'linux')).toEqual(defaults)
    expect(readSettings({ REDIS_URL: ' ', FENCE: '' }, 'linux')).toEqual(defaults)
  })

  it('reads both variables', () => {
    const env = { REDIS_URL: 'redis://cache:6380/2', FENCE: 'off' }
    expect(readSettings(env, 'linux')).toEqual({ redisUrl: env.REDIS_URL, fenced: false })
  })

  it.each([
    [{ REDIS_URL: 'localhost:6379' }, /^REDIS_URL=localhost:6379: use redis:\/\/host:port/],
    [{ FENCE: 'maybe' }, /^FENCE=maybe: use on or off/],
  ])('names the variable, its value and the fix for %o', (env, message) => {
    expect(refusal(env as Record<string, string>)).toMatch(message)
    expect(refusal(env as Record<string, string>)).not.toContain('\n')
  })

  it('shows no password', () => {
    expect(refusal({ REDIS_URL: 'user:secret@cache:6379' })).not.toContain('secret')
  })

  it('refuses Windows, which cannot pause a process', () => {
    expect(refusal({}, 'win32')).toContain('WSL')
  })
})

describe('checkRedis', () => {
  it('reports in one line, without the password, that nothing listens', async () => {
    const error: unknown = await checkRedis('redis://user:secret@127.0.0.1:1/').catch((e) => e)
    expect(error).toBeInstanceOf(StartError)
    expect(String(error)).toMatch(/REDIS_URL=redis:\/\/127\.0\.0\.1:1: cannot use it \(.+\)/)
    expect(String(error)).not.toContain('secret')
    expect(String(error)).not.toContain('\n')
  })
})
