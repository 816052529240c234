import { describe, expect, it } from 'vitest'
import { problem } from './problem.ts'

describe('problem()', () => {
  it('makes a complete response that no cache stores', () => {
    const reply = problem(503, 'ERR_STAMPEDE_WAIT_TIMEOUT', 'Service Unavailable', 'Try again.', [
      ['retry-after', '1'],
    ])
    expect(reply.status).toBe(503)
    expect(reply.headers).toEqual([
      ['content-type', 'application/problem+json'],
      ['cache-control', 'no-store'],
      ['retry-after', '1'],
    ])
    expect(JSON.parse(new TextDecoder().decode(reply.body))).toEqual({
      title: 'Service Unavailable',
      status: 503,
      detail: 'Try again.',
      code: 'ERR_STAMPEDE_WAIT_TIMEOUT',
    })
  })

  it('needs no extra headers', () => {
    expect(problem(400, 'E', 'Bad Request', 'caf\u00e9').headers).toHaveLength(2)
  })
})
