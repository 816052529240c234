// Checks the structure that ARCHITECTURE.md draws: arrows, layers, no import cycles, thin adapters.
// The first sentence of each source file says what the file contains; `npm run map` prints these
// sentences.

import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { firstSentence, isMapped, projectFiles } from './map.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

const files = projectFiles()
const isTest = (path: string): boolean => /\.test\.ts$/.test(path)
const sources = files.filter((path) => /^(packages|apps)\/.*\.ts$/.test(path) && !isTest(path))

interface Import {
  readonly from: string
  readonly to: string
}

function importsOf(from: string): Import[] {
  const pattern = /^(?:import|export)\s+(?:type\s)?(?:[^'";]*?\sfrom\s+)?'([^']+)'/gm
  return [...read(from).matchAll(pattern)].map(([, to = '']) => ({
    from,
    to: to.startsWith('.') ? normalize(join(dirname(from), to)) : to,
  }))
}

const imports = sources.flatMap(importsOf)

describe('the map of files', () => {
  it('has one sentence for each file, taken from the first comment of the file', () => {
    for (const path of files.filter(isMapped)) {
      const sentence = firstSentence(read(path))
      expect(sentence, `${path} begins with a comment that says what is in it`).toMatch(/\w+ .*\w/)
      expect(sentence?.length, `${path}: ${sentence}`).toBeLessThanOrEqual(120)
    }
  })
})

describe('imports between packages', () => {
  const ARROWS: Readonly<Record<string, readonly string[]>> = {
    core: [],
    redis: ['core'],
    locks: ['core'],
    postgres: ['core'],
    'node-http': ['core'],
    express: ['core', 'node-http'],
    koa: ['core', 'node-http'],
    fastify: ['core', 'node-http'],
    hono: ['core', 'node-http'],
    nest: ['core', 'node-http'],
    otel: ['core'],
    operate: ['core'],
    dashboard: ['core', 'operate'],
    testkit: ['core', 'node-http'],
    cli: ['core', 'operate', 'postgres', 'redis'],
    metrics: ['core'],
  }

  it('follow only the arrows in ARCHITECTURE.md', () => {
    for (const { from, to } of imports) {
      const [, owner = ''] = /^packages\/([^/]+)\//.exec(from) ?? []
      const [, other] = /^@stampede\/([^/]+)/.exec(to) ?? []
      if (owner === '' || other === undefined || other === owner) continue
      expect(ARROWS[owner], `${from} imports ${to}`).toContain(other)
    }
  })

  it('are declared in package.json, which declares no other package of this repository', () => {
    for (const [name, arrows] of Object.entries(ARROWS)) {
      const { dependencies, peerDependencies } = JSON.parse(read(`packages/${name}/package.json`))
      const ours = Object.keys({ ...dependencies, ...peerDependencies }).filter((each) =>
        each.startsWith('@stampede/'),
      )
      expect(ours.sort()).toEqual(arrows.map((arrow) => `@stampede/${arrow}`).sort())
    }
  })

  it('never leave the package by a relative path, and never reach test/ or apps/', () => {
    for (const { from, to } of imports) {
      if (to.startsWith('@') || !to.includes('/')) continue
      const home = from.split('/').slice(0, 2).join('/')
      if (/^(packages|apps|test)\//.test(to)) expect(to, from).toMatch(new RegExp(`^${home}/`))
    }
  })

  it('keep frameworks and Redis out of core, and node:http in node-http', () => {
    for (const { from, to } of imports) {
      if (from.startsWith('packages/core/'))
        expect(to, from).not.toMatch(/express|koa|fastify|hono|nest|redis|node:http/)
    }
    // Types may be named wherever a framework hands them over. They are created and wrapped in one
    // place. The contracts of the testkit are tests: their handlers respond as handlers do. The
    // dashboard is a handler as well.
    const isHandler = (path: string) => /^packages\/(node-http|testkit|dashboard)\//.test(path)
    for (const path of sources.filter((each) => /^packages\//.test(each) && !isHandler(each))) {
      expect(read(path), path).not.toMatch(
        /\b(createServer|new (ServerResponse|IncomingMessage))\b/,
      )
      expect(read(path), path).not.toMatch(/\bres\.(writeHead|write|end)\b/)
    }
  })
})

describe('packages/core', () => {
  /** A folder may import folders of a lower rank and of its own rank. */
  const RANK: ReadonlyArray<readonly [RegExp, number]> = [
    [/^packages\/core\/src\/testing\//, 7],
    [
      /^packages\/core\/src\/(index|adapter|operator|store|http-cache|http-idempotency|request-key)\.ts$/,
      6,
    ],
    [/^packages\/core\/src\/stampede\.ts$/, 5],
    [
      /^packages\/core\/src\/(data|idempotency|memory)\/|^packages\/core\/src\/(purge|stampede-options|stats)/,
      4,
    ],
    [/^packages\/core\/src\/((cache|engine|l1)\/|(runtime|traces|refresh-warnings)\.ts$)/, 3],
    [/^packages\/core\/src\/lease\//, 2],
    [/^packages\/core\/src\/(http|entry)\//, 1],
    [/^packages\/core\/src\/(ports\/|errors|events|fill-options|options|tags|tracing|warnings)/, 0],
  ]
  const rank = (path: string): number => RANK.find(([pattern]) => pattern.test(path))?.[1] ?? -1

  it('imports only downwards through the layers of ARCHITECTURE.md', () => {
    for (const { from, to } of imports.filter((each) =>
      each.from.startsWith('packages/core/src/'),
    )) {
      if (!to.startsWith('packages/core/src/')) continue
      expect(rank(to), `${from} imports ${to}`).toBeLessThanOrEqual(rank(from))
    }
  })

  /** Folders that a folder must not import, types included, beyond what the ranks forbid. */
  const APART: Readonly<Record<string, readonly string[]>> = {
    idempotency: ['cache', 'engine', 'l1'],
    data: ['cache', 'idempotency'],
    memory: ['cache', 'data', 'engine', 'idempotency'],
    cache: ['data', 'idempotency'],
    engine: ['cache', 'data', 'idempotency'],
    l1: ['cache', 'data', 'engine', 'idempotency'],
  }

  it('keeps independent parts from importing each other', () => {
    const folderOf = (path: string) => /^packages\/core\/src\/([^/]+)\//.exec(path)?.[1] ?? ''
    for (const { from, to } of imports) {
      expect(APART[folderOf(from)] ?? [], `${from} imports ${to}`).not.toContain(folderOf(to))
    }
  })

  it('has at most 20 files on the path of a cached request', () => {
    const stages = sources.filter((path) => path.startsWith('packages/core/src/cache/'))
    expect(stages.length).toBeLessThanOrEqual(20)
  })

  it('keeps http/ and entry/ free of clock, I/O and process', () => {
    for (const path of sources.filter((each) => /core\/src\/(http|entry)\//.test(each))) {
      expect(read(path), path).not.toMatch(
        /Date\.now|performance\.now|process\.[a-z]+[(.]|setTimeout|node:fs/,
      )
    }
  })

  it('calls the stages of a cached request in the documented order', () => {
    const journey = (file: string, from: string, order: readonly string[]): void => {
      const text = read(`packages/core/src/cache/${file}`)
      const places = order.map((call) => text.indexOf(call, text.indexOf(from)))
      expect(places).toEqual([...places].sort((a, b) => a - b))
      expect(places).not.toContain(-1)
    }
    journey('handle-cached.ts', 'export function handleCached', [
      'admit(',
      'cacheKey(',
      'freshHit(',
      'find(',
      'respond(',
    ])
    journey('handle-cached.ts', '  run(', ['runOrigin('])
    journey('../engine/engine.ts', 'export function find', ['join(', 'hitForMiss(', '.begin('])
    journey('../engine/engine.ts', '  step()', ['lookUp(', 'act('])
    journey('../engine/engine.ts', '  #fillOrRelease(lease', ['fill('])
    journey('../engine/fill.ts', 'export function fill', ['new Run(', 'share('])
    journey('run-origin.ts', '  onHead(', ['#judge(', '#resultOf('])
  })
})

describe('an optional feature', () => {
  /** Its names in code, how many files a removal changes, and files with other uses of a name. */
  const FEATURES: Array<[name: string, pattern: RegExp, files: number, other?: RegExp]> = [
    ['audit', /\baudit\b|AuditRules|ReadLog|watchReads/, 5],
    ['softTimeoutMs', /softTimeout|soft-timeout/, 5],
    ['onBusy', /onBusy/i, 2],
    ['targetedFields', /targetedFields/i, 3],
    ['keepMs', /keepMs/, 5, /idempotency|postgres|time-budget|doctor\/journey/],
    ['negativeTtlMs', /negativeTtl/, 3],
    ['jitter', /\bjitter\b/, 5],
    ['vary', /\bvary\?: readonly|readVary|config\.vary\b|\(values, 'vary'\)/, 4],
    ['tags', /TagsRule|\.\.\.TAGS|readTags|evaluateTags|callTagsOption|'tags'/, 5, /packages\/cli/],
    // The option `tags`, and purges by tag, in the command line and the dashboard, too.
    ['purge by tag', /\.\.\.TAGS|readTags|evaluateTags|agSubject|'tags?'|cache-tag|\[tg\]/, 12],
  ]
  const isOutside = /generated|\/testing\/|packages\/testkit\//
  const withoutComments = (text: string): string =>
    text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')

  it.each(FEATURES)('can be taken out with few changes: %s', (_, pattern, most, other = /^$/) => {
    const named = sources.filter(
      (path) => path.startsWith('packages/') && !isOutside.test(path) && !other.test(path),
    )
    const found = named.filter((path) => pattern.test(withoutComments(read(path))))
    expect(found.length, found.join(' ')).toBeLessThanOrEqual(most)
  })
})

describe('the source tree', () => {
  it('has no import cycle, types included', () => {
    const edges = new Map<string, string[]>()
    for (const { from, to } of imports) {
      if (/^(packages|apps)\//.test(to)) edges.set(from, [...(edges.get(from) ?? []), to])
    }
    const done = new Set<string>()
    const visit = (path: string, trail: readonly string[]): void => {
      expect(trail, 'an import cycle').not.toContain(path)
      if (done.has(path)) return
      for (const next of edges.get(path) ?? []) visit(next, [...trail, path])
      done.add(path)
    }
    for (const path of edges.keys()) visit(path, [])
  })

  it('keeps adapters thin and files short', () => {
    for (const path of sources) {
      const lines = read(path).split('\n').length
      if (/^packages\/(express|fastify|hono|nest)\//.test(path))
        expect(lines, path).toBeLessThanOrEqual(120)
      // Until Koa's own respond() runs, its body is a value. Only the Koa adapter tees it.
      if (/^packages\/koa\//.test(path)) expect(lines, path).toBeLessThanOrEqual(270)
      // A contract is one suite, read from top to bottom.
      if (!/^packages\/testkit\//.test(path)) expect(lines, path).toBeLessThanOrEqual(350)
    }
  })

  it('assigns no function expression to a property, where V8 would keep its request', () => {
    // V8 allocates such a function in the old generation. It survives all collections of the young
    // one, and so does all that it references: the request, the response and the body. A constant
    // or a method in an object literal is allocated in the young generation.
    const assigned =
      /^ *\w[\w#]*(?:\.[\w#]+|\[[^\]]+\])+ (?:\?\?|\|\|)?= (?:async )?(?:function\b|\(.*=>|\w+ =>)/m
    const perRequest = /^packages\/(core|node-http|express|koa|fastify|hono|nest)\/src\/(?!testing)/
    for (const path of sources.filter((each) => perRequest.test(each)))
      expect(assigned.exec(read(path))?.[0], path).toBeUndefined()
    expect(assigned.test('    res.destroy = (...args) => {\n')).toBe(true)
  })

  it('allows no time below 5 s in tests, which a busy machine would exceed', () => {
    const shortest = 5_000
    const measured = /(?:performance\.now\(\)|elapsed\(|cpuMs\(|(?:took|elapsed|latency|after)Ms\b)/
    const allowed = /toBeLessThan(?:OrEqual)?\(([\d_]+)\)|\.poll\(.*timeout: ([\d_]+)/
    const tests = files.filter((path) => /\.test\.ts$|^packages\/testkit\/src\//.test(path))
    const found = tests.flatMap((path) =>
      read(path)
        .split('\n')
        .filter((line) => {
          const [, bound, limit] = allowed.exec(line) ?? []
          const ms = limit ?? (measured.test(line) ? bound : undefined)
          return ms !== undefined && Number(ms.replaceAll('_', '')) < shortest
        })
        .map((line) => `${path}: ${line.trim()}`),
    )
    expect(found).toEqual([])
  })

  it('keeps each script within 100 lines of code and 100 columns, with a header that names keys, arguments and replies', () => {
    for (const path of files.filter((each) => each.endsWith('.lua'))) {
      const text = read(path)
      const code = text.split('\n').filter((line) => !/^\s*(--.*)?$/.test(line))
      expect(code.length, path).toBeLessThanOrEqual(100)
      expect(Math.max(...code.map((line) => line.length)), path).toBeLessThanOrEqual(100)
      expect(text, path).toMatch(/^-- .*\n[\s\S]*-- KEYS[\s\S]*-- ARGV[\s\S]*-- Reply/)
    }
  })
})
