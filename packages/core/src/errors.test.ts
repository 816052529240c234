// Checks the lists of error and warning codes, their page in the guide, and the base class of all
// errors.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { ERROR_CODES, StampedeError, storeUnavailable } from './errors.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

describe('the list of error codes', () => {
  it('equals the table in the guide', () => {
    const rows = [...read('docs/guide/events.md').matchAll(/^\| `(ERR_\w+)` \| (.+) \|$/gm)]
    expect(rows.map(([, code, when]) => [code, when])).toEqual(Object.entries(ERROR_CODES))
  })

  it('has exactly the codes that the sources use', () => {
    const text = sources.map(read).join('\n')
    const used = new Set(
      [...text.matchAll(/Error\(\s*'(ERR_(?:STAMPEDE|LOCK)_\w+)'/g)].map(([, code]) => code),
    )
    expect([...used].sort()).toEqual(Object.keys(ERROR_CODES).sort())
  })
})

describe('the warning codes in the guide', () => {
  it('are exactly those that the sources use', () => {
    const rows = [...read('docs/guide/events.md').matchAll(/^\| `(STAMPEDE_\w+)` \| .+ \|$/gm)]
    const text = sources.map(read).join('\n')
    const used = text.matchAll(/(?:code: |warn(?:Once)?\(\s*)'(STAMPEDE_\w+)'/g)
    const codes = new Set([...used].map(([, code]) => code))
    expect(rows.map(([, code]) => code).sort()).toEqual([...codes].sort())
  })
})

describe('errors for users', () => {
  it('are StampedeErrors: no source throws a bare Error', () => {
    const bare = sources.filter((path) => /throw new (Type|Range)?Error\(/.test(read(path)))
    // The first error asserts a transition that no caller can cause. The others are caught where
    // they are thrown, or become the cause of an error of the store.
    expect(bare).toEqual([
      'packages/core/src/engine/flight.ts',
      'packages/core/src/http/fingerprint.ts',
      'packages/postgres/src/line.ts',
      'packages/redis/src/connection/cluster.ts',
      'packages/redis/src/connection/sentinels.ts',
    ])
  })

  it('have a name, a code, a message and a cause', () => {
    const cause = new Error('why')
    const error = new StampedeError('ERR_STAMPEDE_VALUE', 'what', { cause })
    expect(error).toMatchObject({
      name: 'StampedeError',
      code: 'ERR_STAMPEDE_VALUE',
      message: 'what',
      cause,
    })
    expect(error).toBeInstanceOf(Error)
  })

  it('keep the value that a store of the app threw, also if it is no Error', () => {
    const [refusal, empty] = [{ message: 'quota exceeded' }, Object.create(null)]
    const error = storeUnavailable('mine', 'purge', refusal)
    expect(error).toMatchObject({ message: 'mine purge: quota exceeded', cause: refusal })
    expect(storeUnavailable('mine', 'purge', empty).cause).toBe(empty)
    expect(storeUnavailable('mine', 'purge', 'unknown reply')).not.toHaveProperty('cause')
  })
})

const sources = execFileSync('git', ['ls-files', '-co', '--exclude-standard', 'packages'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => /^packages\/(?!testkit).*\/src\/(?!testing).*(?<!\.test)\.ts$/.test(path))
