// Installs the tarballs of all packages in an empty project, and uses them as apps do: by import,
// by require, in Jest, and with old and new compilers.

import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packAll } from '../../tools/packages/pack.mjs'
import { HAS_POSTGRES, type PostgresServer, startPostgres } from '../harness/postgres.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const OLD_TYPESCRIPT = '5.4.5'
const NEW_NODE_TYPES = '26.6.6'

const project = realpathSync(mkdtempSync(join(tmpdir(), 'stampede-packages-')))
const packages = packAll(project)
const doors = packages.flatMap(({ manifest: { name, exports = {} } }) =>
  Object.keys(exports)
    .filter((door) => door !== './package.json')
    .map((door) => name + door.slice(1)),
)
const write = (file: string, text: string): void => writeFileSync(join(project, file), text)
const read = (file: string): string => readFileSync(join(project, file), 'utf8')

/** The output of a command in the project. Throws an error with the output if the command fails. */
function run(command: string, args: string[], env: object = {}): string {
  const { VITEST: _, NODE_OPTIONS: __, NODE_ENV: ___, ...inherited } = process.env
  const options = { cwd: project, encoding: 'utf8', env: { ...inherited, ...env } } as const
  const { status, stdout, stderr } = spawnSync(command, args, options)
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}:\n${stdout}${stderr}`)
  return stdout
}

/** Whether a file had only types. TypeScript keeps its comments. */
const isEmpty = (code: string): boolean =>
  /^export ?\{\};?$/.test(code.replace(/\/\*[\s\S]*?\*\/|^\/\/.*$/gm, '').trim())

let redis: RedisServer
let postgres: PostgresServer | undefined

beforeAll(async () => {
  redis = await startRedis()
  if (HAS_POSTGRES) postgres = await startPostgres()
  const root = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).devDependencies
  const others = [
    'express',
    'koa',
    'fastify',
    '@nestjs/common',
    'reflect-metadata',
    'rxjs',
    'hono',
    '@hono/node-server',
    'ioredis',
    'pg',
    'prom-client',
    '@opentelemetry/api',
    'vitest',
  ]
  const types = ['@types/node', '@types/express', '@types/koa', '@types/pg']
  write('package.json', JSON.stringify({ private: true }))
  run('npm', [
    'install',
    ...packages.map(({ tarball }) => tarball),
    ...[...others, ...types].map((name) => `${name}@${root[name]}`),
    `typescript-old@npm:typescript@${OLD_TYPESCRIPT}`,
    `types-node-new@npm:@types/node@${NEW_NODE_TYPES}`,
    'jest@30',
    ...['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--loglevel=error'],
  ])
}, 300_000)

afterAll(async () => {
  await redis?.stop()
  await postgres?.stop()
  rmSync(project, { recursive: true })
})

describe('npm pack', () => {
  it.each(packages)('packs of $manifest.name only what its entry points load', (packed) => {
    const { files, manifest } = packed
    const home = join('node_modules', manifest.name)
    const loaded = new Set<string>()
    const load = (file: string): void => {
      if (loaded.has(file)) return
      loaded.add(file)
      for (const [, to = ''] of read(join(home, file)).matchAll(
        /(?:from|import|require\() ?'(\.[^']+\.js)'/g,
      ))
        load(normalize(join(file, '..', to)))
    }
    for (const file of files.filter((each) => /\.cjs$|^bin\//.test(each))) load(file)
    const scripts = files.filter((file) => /\.c?js$/.test(file) && !file.startsWith('dist/ui/'))
    const code = scripts.filter((file) => !isEmpty(read(join(home, file))))
    expect(code.filter((file) => !loaded.has(file))).toEqual([])
    for (const file of code)
      if (/from 'vitest'/.test(read(join(home, file))))
        expect(manifest.peerDependencies, file).toHaveProperty('vitest')
  })

  it.each(packages)(
    'packs no tests, sources, maps or build info of $manifest.name',
    ({ files }) => {
      expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']))
      expect(files.filter((file) => /\.test\.|^src\/|\.map$|tsbuildinfo/.test(file))).toEqual([])
    },
  )
})

describe('an app with Express and Redis', () => {
  const installed = new Set<string>()
  const add = (name: string): void => {
    if (installed.has(name)) return
    installed.add(name)
    const { dependencies = {}, peerDependencies = {} } = JSON.parse(
      read(join('node_modules', name, 'package.json')),
    )
    const ours = Object.keys(peerDependencies).filter((each) => each.startsWith('@stampede/'))
    for (const each of [...Object.keys(dependencies), ...ours]) add(each)
  }

  const bytesOf = (name: string): number => {
    const folder = join(project, 'node_modules', name)
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((file) => statSync(join(folder, file)))
      .reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0)
  }

  it('installs at most 5 packages beside Express and its client, ours with at most 1.6 MB', () => {
    installed.add('ioredis')
    add('@stampede/express')
    add('@stampede/redis')
    installed.delete('ioredis')
    expect(installed.size, [...installed].join()).toBeLessThanOrEqual(5)
    const ours = [...installed].filter((name) => name.startsWith('@stampede/'))
    expect(ours.reduce((sum, name) => sum + bytesOf(name), 0)).toBeLessThanOrEqual(1_600_000)
    // lru-cache has 3.2 MB: four builds and their maps.
    expect([...installed].filter((name) => !ours.includes(name))).toEqual(['lru-cache'])
  })
})

describe('a README', () => {
  const PROBE = `
const page = () => fetch(\`http://127.0.0.1:\${server.address().port}/products/7\`)
await (await page()).text()
console.log((await page()).headers.get('cache-status'))
server.close()
server.closeAllConnections()
`
  const examples = packages
    // The example of Nest has decorators, which Node does not run (test/snippets).
    .filter(({ manifest }) => !/cli|nest|testkit/.test(manifest.name))
    .filter(({ manifest }) => HAS_POSTGRES || !/postgres/.test(manifest.name))
    .map(({ manifest: { name } }) => name)
  const exampleOf = (name: string): string => {
    const [, code = ''] =
      /^```js\n([\s\S]*?)^```/m.exec(read(join('node_modules', name, 'README.md'))) ?? []
    return /const \{? ?server/.test(code) ? code + PROBE : code
  }
  const check = (name: string, output: string): void =>
    expect(output).toMatch(
      /express|koa|fastify|hono|node-http/.test(name) ? /Stampede; hit; ttl=\d/ : /./,
    )
  const env = () => ({ PORT: '0', REDIS_URL: redis.url, DATABASE_URL: postgres?.url ?? '' })

  it.each(examples)('has an example that runs as an ES module, for %s', (name) => {
    write('example.mjs', exampleOf(name))
    check(name, run('node', ['example.mjs'], env()))
  })

  it.each(examples)('has an example that runs as a CommonJS module, for %s', (name) => {
    const code = exampleOf(name).replace(/^import (.+) from ('.+')$/gm, 'const $1 = require($2)')
    write('example.cjs', `(async () => {\n${code}\n})()`)
    check(name, run('node', ['example.cjs'], env()))
  })

  it('has an example that passes in Vitest, for @stampede/testkit', () => {
    write('my-store.test.mjs', exampleOf('@stampede/testkit'))
    run('node', ['node_modules/vitest/vitest.mjs', 'run', 'my-store.test.mjs'])
  })

  it('names a program that runs, for @stampede/cli', () => {
    const output = run('npx', ['@stampede/cli', 'locks'], { REDIS_URL: redis.url })
    expect(output).toContain('lock')
  })
})

describe('a process that uses both import and require', () => {
  it('has one copy of each entry point', () => {
    // The testkit runs only in Vitest.
    const names = doors.filter((door) => !door.includes('testkit'))
    expect(names.length).toBeGreaterThanOrEqual(14)
    write(
      'both.mjs',
      `import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
for (const name of ${JSON.stringify(names)}) {
  const [esm, cjs] = [await import(name), require(name)]
  for (const key of Object.keys(esm)) if (esm[key] !== cjs[key]) throw new Error(name + ' ' + key)
}`,
    )
    run('node', ['both.mjs'])
  })
})

describe('Jest', () => {
  it('loads each entry point by require', () => {
    const names = doors.filter((door) => !door.includes('testkit'))
    write(
      'stampede.jest.cjs',
      `const { createStampede } = require('@stampede/core')
test.each(${JSON.stringify(names)})('%s', (name) => {
  expect(Object.keys(require(name)).length).toBeGreaterThan(0)
})
test('getOrSet', async () => {
  const stampede = createStampede()
  expect(await stampede.getOrSet('k', () => ({ n: 1 }), { ttlMs: 1000 })).toEqual({ n: 1 })
  await stampede.close()
})`,
    )
    run('node', ['node_modules/jest/bin/jest.js', '--testRegex', 'stampede\\.jest\\.cjs$'])
  })
})

describe('an app in TypeScript, under strict', () => {
  const compilers = {
    [OLD_TYPESCRIPT]: () => join(project, 'node_modules/typescript-old/bin/tsc'),
    current: () => join(ROOT, 'node_modules/typescript/bin/tsc'),
  }
  const usage = join(ROOT, 'test/long/packages/usage.ts')
  const ES2020 = { module: 'nodenext', target: 'es2020', lib: ['es2020', 'esnext.disposable'] }
  const settings = [
    ['nodenext', { module: 'nodenext' }, ['usage.mts', 'usage.cts']],
    ['nodenext for ES2020', ES2020, ['usage.mts', 'usage.cts']],
    ['node16', { module: 'node16' }, ['usage.mts', 'usage.cts']],
    ['bundler', { module: 'esnext', moduleResolution: 'bundler' }, ['usage.mts']],
  ] as const
  // The older compiler is the one that may not know something. The current one knows `node16` as
  // `nodenext`, with which the last test of this file compiles.
  const cases = Object.keys(compilers).flatMap((version) =>
    settings
      .filter(([name]) => version === OLD_TYPESCRIPT || !/^node(16|next)$/.test(name))
      .map((setting) => [version, ...setting] as const),
  )

  /** Compiler errors in the app and in our declarations. Errors in other packages do not count. */
  function errorsOf(config: string, compiler: string, options: object, files: readonly string[]) {
    for (const copy of files) copyFileSync(usage, join(project, copy))
    // `skipLibCheck` would hide errors in our declarations.
    const compilerOptions = {
      ...{ target: 'es2022', lib: ['esnext'], types: ['node'] },
      ...{ strict: true, esModuleInterop: true, noEmit: true },
      ...options,
    }
    write(config, JSON.stringify({ compilerOptions, files }))
    const args = [compiler, '-p', config, '--pretty', 'false']
    const { stdout } = spawnSync('node', args, { cwd: project, encoding: 'utf8' })
    return stdout.split('\n').filter((line) => /^(usage|node_modules\/@stampede|error)/.test(line))
  }

  it.each(cases)('compiles with TypeScript %s and %s', (version, name, options, files) => {
    const compiler = compilers[version as keyof typeof compilers]()
    const config = `tsconfig.${version}.${name}.json`
    expect(errorsOf(config, compiler, options, files)).toEqual([])
  })

  // The last test of the file: the older types are gone after it.
  it(`compiles with @types/node ${NEW_NODE_TYPES}`, () => {
    const types = join(project, 'node_modules/@types/node')
    rmSync(types, { recursive: true })
    renameSync(join(project, 'node_modules/types-node-new'), types)
    const [, options, files] = settings[0]
    const errors = errorsOf('tsconfig.node.json', compilers.current(), options, files)
    expect(errors).toEqual([])
  })
})
