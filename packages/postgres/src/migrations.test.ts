import { describe, expect, it } from 'vitest'
import { LAYOUT, migrations } from './migrations.ts'

describe('migrations()', () => {
  it('returns the files in order, each of which records itself', () => {
    const all = migrations()
    expect(all).toHaveLength(LAYOUT)
    expect(all.map(({ id }) => id)).toEqual(all.map(({ id }) => id).toSorted())
    for (const { id, sql } of all)
      expect(sql).toContain(`insert into "stampede".migration (id) values ('${id}');`)
  })

  it('uses the given schema in each name, literal and channel', () => {
    const statements = migrations('Shop_1')
      .flatMap(({ sql }) => sql.split('\n'))
      .filter((line) => !line.trimStart().startsWith('--'))
    const left = statements.filter((line) => /\bstampede\b/.test(line))
    expect(left).toEqual([])
  })

  it.each(['', 'a b', 'a"', "a'", 'ä', '1a', 'x'.repeat(41), 7, null])(
    'throws an option error for the schema %j',
    (schema) => {
      expect(() => migrations(schema as string)).toThrow(
        expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }),
      )
    },
  )
})
