// No regular expression of the packages takes more than linear time on any input. Each one is
// analysed, not timed.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseAst } from 'vitest/node'
import { loadOnDemand } from '../../tools/on-demand.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const sources = execFileSync('git', ['ls-files', '--cached', '--others', 'packages/*/src/*.ts'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && !/\.test\.ts$|\/testing\/|testkit|generated/.test(path))

interface Found {
  readonly pattern: string
  readonly flags: string
  readonly path: string
}

/** Every node of the tree, in no particular order. */
function* nodesOf(root: unknown): Generator<Record<string, unknown>> {
  const pending = [root]
  while (pending.length > 0) {
    const node = pending.pop()
    if (typeof node !== 'object' || node === null) continue
    for (const child of Object.values(node)) pending.push(child)
    if ('type' in node) yield node as Record<string, unknown>
  }
}

function regexesOf(path: string): Found[] {
  const found: Found[] = []
  const tree = parseAst(readFileSync(join(ROOT, path), 'utf8'), { lang: 'ts' })
  for (const { type, regex, callee } of nodesOf(tree)) {
    if (type === 'Literal' && regex) found.push({ ...(regex as Omit<Found, 'path'>), path })
    const name = (callee as { name?: string } | undefined)?.name
    // An expression that is built from strings cannot be read here.
    expect(name === 'RegExp', `${path} makes a regular expression of a string`).toBe(false)
  }
  return found
}

const all = sources.flatMap(regexesOf)
const different = [...new Map(all.map((each) => [`/${each.pattern}/${each.flags}`, each]))]

/** The types as far as they are used here. The package is installed when this file runs. */
interface Recheck {
  check(source: string, flags: string): Promise<{ readonly status: string }>
}

let recheck: Recheck
beforeAll(() => {
  recheck = loadOnDemand(join(ROOT, 'test/fuzz/recheck'), 'recheck') as Recheck
}, 300_000)

async function isLinear({ pattern, flags }: Pick<Found, 'pattern' | 'flags'>): Promise<boolean> {
  return (await recheck.check(pattern, flags)).status === 'safe'
}

describe('the regular expression analysis', () => {
  it('covers every regular expression of the packages', () => {
    // The parsers alone have more than this.
    expect(different.length).toBeGreaterThan(60)
    expect(different.map(([text]) => text)).toContain('/^[ \\t]*bytes=(.*)$/i')
  })

  it.each([
    ['exponential', '^(a+)+$'],
    ['quadratic', '[ \\t]+$'],
  ])('recognises %s expressions', async (_, pattern) => {
    expect(await isLinear({ pattern, flags: '' })).toBe(false)
  })
})

describe('the regular expression', () => {
  it.each(different)('%s takes linear time', async (_, found) => {
    expect(await isLinear(found), found.path).toBe(true)
  })
})
