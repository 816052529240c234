import { mayHaveRun } from '@stampede/core/store'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { Database, isRefusal, readReply, stateOf } from './database.ts'

const failed = (code: string, more = {}) => Object.assign(new Error('it failed'), { code, ...more })
const inside = (cause: unknown) => new Error('Failed query', { cause })

describe('the SQLSTATE of an error', () => {
  it.each([
    ['of pg', failed('40001'), '40001'],
    ['of Drizzle', inside(failed('25P02')), '25P02'],
    ['of Prisma', failed('P2010', { meta: { code: '23505' } }), '23505'],
    ['of PL/pgSQL', failed('P0001'), 'P0001'],
    ['of Node', failed('EPIPE'), undefined],
    ['of Prisma without one', failed('P2034'), undefined],
    ['of a lost connection', new Error('Connection terminated unexpectedly'), undefined],
    ['of a value that is no error', undefined, undefined],
  ])('%s is found', (_, error, state) => {
    expect(stateOf(error)).toBe(state)
  })

  it('shows whether the statement certainly had no effect', () => {
    for (const code of ['40001', '23505', '42P01', '25006'])
      expect(isRefusal(failed(code))).toBe(true)
    for (const code of ['57P01', '08006', '53100', '58030', 'XX000', 'EPIPE'])
      expect(isRefusal(failed(code))).toBe(false)
  })
})

describe('a database', () => {
  const db = new Database(new pg.Pool(), 'Shop', false)

  it('calls a function with hex digits and whole numbers only', () => {
    const text = db.text('f', "a'; drop", new Uint8Array([0, 255]), 1.2, '')
    expect(text).toBe(
      String.raw`select "Shop".f(E'\\x61273b2064726f70', E'\\x00ff', 2, E'\\x') as reply`,
    )
  })

  it('parses the JSON of a reply', () => {
    expect(readReply([{ reply: '{"status":"busy"}' }])).toEqual({ status: 'busy' })
    expect(readReply([{ reply: null }])).toBeNull()
    expect(readReply([])).toBeNull()
  })

  it('reports errors with their SQLSTATE, and whether the operation may have run', () => {
    const refused = db.errorOf('begin', failed('42501'))
    expect(refused).toMatchObject({
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      message: 'postgres begin: it failed (SQLSTATE 42501)',
    })
    expect(mayHaveRun(refused)).toBe(false)
    const lost = db.errorOf('begin', new Error('Connection terminated'))
    expect(lost.message).toBe('postgres begin: Connection terminated')
    expect(mayHaveRun(lost)).toBe(true)
  })

  it.each(['42P01', '3F000', '42883'])('reports SQLSTATE %s as missing tables', (code) => {
    expect(db.errorOf('begin', failed(code))).toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringContaining('tables are missing in schema "Shop"'),
    })
  })
})
