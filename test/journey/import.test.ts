// An import loads few files, because each file costs a fresh process some half a millisecond.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { IMPORTED_FILES } from './budgets.ts'

const SCRIPT = fileURLToPath(new URL('import.mjs', import.meta.url))

let loaded: { readonly files: readonly string[]; readonly builtins: readonly string[] }
beforeAll(async () => {
  const doors = ['@stampede/core', '@stampede/redis', '@stampede/express']
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, ...doors])
  loaded = JSON.parse(stdout)
})

describe('an import of core, redis and express', () => {
  it('loads at most its budget of files', () => {
    expect(loaded.files.length).toBeGreaterThan(10)
    expect(loaded.files.length).toBeLessThanOrEqual(IMPORTED_FILES)
  })

  it('loads neither node:http2 nor node:tls, which an app may not use', () => {
    expect(loaded.builtins).toContain('http')
    expect(loaded.builtins.filter((name) => /^(http2|tls|https)$/.test(name))).toEqual([])
  })
})
