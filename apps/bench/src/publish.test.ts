import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { inJson, publish, readArguments } from './publish.ts'

describe('a published run', () => {
  it('has its raw results beside its page', () => {
    const folder = mkdtempSync(join(tmpdir(), 'stampede-publish-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    publish(join(folder, 'docs'), 'page', '# Page\n', { rates: [1, 2] })
    expect(readFileSync(join(folder, 'docs/page.md'), 'utf8')).toBe('# Page\n')
    expect(JSON.parse(readFileSync(join(folder, 'docs/page.json'), 'utf8'))).toEqual({
      rates: [1, 2],
    })
  })

  it('has each list of numbers on one line, with five significant digits', () => {
    const text = inJson({ rates: [1234.56789, -0.000123456, 7], name: 'a, [1, 2]', none: [] })
    expect(text).toBe(
      '{\n "rates": [1234.6, -0.00012346, 7],\n "name": "a, [1, 2]",\n "none": []\n}\n',
    )
  })
})

describe('the arguments of a run', () => {
  it('are ids, and a folder for the page', () => {
    expect(readArguments(['a', '--out', 'there', 'b'])).toEqual({
      folder: 'there',
      ids: new Set(['a', 'b']),
    })
    expect(readArguments([])).toEqual({ folder: undefined, ids: new Set() })
    expect(() => readArguments(['--out'])).toThrow('--out needs a folder')
  })
})
