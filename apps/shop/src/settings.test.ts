import { describe, expect, it } from 'vitest'
import { readSettings, StartError, withoutPassword } from './settings.ts'

function refusal(env: Record<string, string>): string {
  try {
    readSettings(env)
  } catch (error) {
    if (error instanceof StartError) return error.message
  }
  return 'accepted'
}

describe('readSettings', () => {
  it('returns the defaults if no variable is set, or if all are empty', () => {
    const defaults = { port: 3000, originLatencyMs: 300, redisUrl: undefined, processes: 3 }
    expect(readSettings({})).toEqual(defaults)
    expect(readSettings({ PORT: '', ORIGIN_LATENCY_MS: ' ', REDIS_URL: '' })).toEqual(defaults)
  })

  it('reads all four variables', () => {
    const redisUrl = 'rediss://:secret@cache:6380/2'
    const env = { PORT: '8080', ORIGIN_LATENCY_MS: '0', REDIS_URL: redisUrl, PROCESSES: '1' }
    expect(readSettings(env)).toEqual({
      port: 8080,
      originLatencyMs: 0,
      redisUrl,
      processes: 1,
    })
  })

  it.each(['abc', '-1', '65536', '3000.5', '0x10', '1e3', '99999999999'])(
    'names PORT, its value and the fix for PORT=%s',
    (PORT) => {
      expect(refusal({ PORT })).toBe(
        `PORT=${PORT}: use a whole number from 0 to 65535, e.g. PORT=3000; 0 takes any free port`,
      )
    },
  )

  it.each(['slow', '-5', '10001', '300ms', 'Infinity'])(
    'names ORIGIN_LATENCY_MS, its value and the fix for ORIGIN_LATENCY_MS=%s',
    (ORIGIN_LATENCY_MS) => {
      expect(refusal({ ORIGIN_LATENCY_MS })).toBe(
        `ORIGIN_LATENCY_MS=${ORIGIN_LATENCY_MS}: use a whole number from 0 to 10000, in milliseconds, e.g. 300`,
      )
    },
  )

  it.each(['0', '9', 'many'])(
    'names PROCESSES, its value and the fix for PROCESSES=%s',
    (PROCESSES) => {
      expect(refusal({ PROCESSES })).toBe(
        `PROCESSES=${PROCESSES}: use a whole number from 1 to 8, e.g. PROCESSES=3`,
      )
    },
  )

  it.each(['localhost:6379', 'http://localhost', 'redis', '6379'])(
    'names REDIS_URL, its value and the fix for REDIS_URL=%s',
    (REDIS_URL) => {
      expect(refusal({ REDIS_URL })).toBe(
        `REDIS_URL=${REDIS_URL}: use redis://host:port or rediss://host:port, or unset it to run without Redis`,
      )
    },
  )

  it('shows no password, neither of a valid URL nor of an invalid one', () => {
    expect(refusal({ REDIS_URL: 'user:secret@cache:6379' })).not.toContain('secret')
    expect(withoutPassword('redis://user:secret@cache:6379/1')).toBe('redis://cache:6379/1')
  })
})
