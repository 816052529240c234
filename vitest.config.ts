// Twelve projects. `npm test` runs `core`, `unit`, `apart` and `faults`, two files at a time, and
// then `beside`. The first three need no server. `npm run test:soak` runs `soak` and `older`, two
// files at a time, and then `long`, `older-beside`, `programs`, `nest11` and `nest10`, five at a
// time. The folder decides its project (test/README.md). In-process tests run the sources
// (tools/sources.mjs). Fleet members are separate processes and run the build, so start them with
// `npm test`.
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { LongFirst } from './test/harness/long-first.ts'
import { reporters } from './tools/reporters.mjs'
import { sourceAliases } from './tools/sources.mjs'

const shared = { resolve: { alias: sourceAliases } }

const inFolders = (...folders: string[]): string[] =>
  folders.map((folder) => `test/${folder}/**/*.test.ts`)

const CORE = 'packages/core/src/**/!(*.property).test.ts'

/** Files that replace a module, or test a warning that a process emits once. */
const APART = [
  'packages/koa/src/{cache,idempotency}.test.ts',
  'packages/hono/src/cache.test.ts',
  'packages/fastify/src/{cache,constraints}.test.ts',
  'packages/dashboard/src/admission.test.ts',
  'packages/redis/src/node-redis/missing-ioredis.test.ts',
]

/** Storms, leaks and the simulation. They take minutes, and measure time or memory. */
const SOAK = inFolders('simulation', 'soak')

/** They take long, and measure neither time nor memory. */
const LONG = [
  ...inFolders('fuzz', 'long', 'postgres/faults'),
  'packages/*/src/**/*.property.test.ts',
]

/**
 * Files that measure no time, or only bounds that a busy machine keeps, too. Five at a time,
 * because most of their time is waiting.
 */
const BESIDE = [
  'test/*.test.ts',
  'test/postgres/*.test.ts',
  ...inFolders(
    'attacks',
    'contracts',
    'fleet',
    'harness',
    'http',
    'idempotency',
    'journey',
    'locks',
    'metrics',
    'protocol',
    'purges',
  ),
]

/** Fleets and faults that take long or run other versions. Some have bounds of seconds. */
const OLDER = [...inFolders('older'), 'test/{fleet,faults}/*.versions.test.ts']

/** Contracts and attacks on other versions. */
const OLDER_BESIDE = [
  ...BESIDE.filter((files) => !files.includes('/fleet/')).map((files) =>
    files.replace('*.test.ts', '*.versions.test.ts'),
  ),
  ...inFolders('older-beside'),
]

/** Programs as a user starts them, pages in a browser, and the code blocks of the docs. */
const PROGRAMS = ['cli', 'dashboard', 'demo', 'site', 'snippets']

const FIRST = { maxWorkers: 2, sequence: { groupOrder: 0 } }
const TWO_AT_A_TIME = { maxWorkers: 2, sequence: { groupOrder: 2 } }
/** Most of the time of these files is waiting. */
const SIDE_BY_SIDE = { maxWorkers: 5, sequence: { groupOrder: 3 } }

/**
 * An older Nest instead of Nest 12. npm aliases fail, because the packages of Nest import each
 * other.
 */
function olderNest(version: '10' | '11') {
  const modules = new URL(`test/harness/nest${version}/node_modules/`, import.meta.url)
  const path = fileURLToPath(modules)
  const alias = [
    { find: /^@nestjs\//, replacement: `${path}@nestjs/` },
    // Nest recognises only the Observables of its own copy.
    { find: /^rxjs$/, replacement: `${path}rxjs/dist/cjs/index.js` },
  ]
  return {
    resolve: { alias: [...sourceAliases, ...alias] },
    test: {
      ...common,
      name: `nest${version}`,
      include: [...inFolders('nest-older'), 'packages/nest/src/*.test.ts'],
      env: { STAMPEDE_TEST_NEST: version },
      globalSetup: [`./test/harness/nest${version}-setup.ts`],
      ...SIDE_BY_SIDE,
    },
  }
}

const common = {
  pool: 'forks' as const,
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // An event that comes late on a busy machine is no failure. The default is 1 s.
  expect: { poll: { timeout: 20_000 } },
  // Contracts run side by side, because most of their time is waiting.
  maxConcurrency: 8,
  // Workspace packages are symlinks in node_modules. They are our sources, so Vite transforms them.
  server: { deps: { inline: [/^@stampede\//] } },
}

export default defineConfig({
  test: {
    maxWorkers: 2,
    sequence: { sequencer: LongFirst },
    reporters,
    projects: [
      {
        ...shared,
        test: {
          ...common,
          name: 'core',
          include: [CORE],
          // Only warnings, which a process emits once, are state outside the objects of core. So
          // its files share their imports. Random cases that measure time run apart.
          isolate: false,
          ...FIRST,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'unit',
          // A thread starts with a sixth less CPU than a process, and no file here needs a process.
          pool: 'threads',
          // Starting a thread and its imports for each file costs more than most files.
          isolate: false,
          include: ['packages/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts'],
          // The bench is no workspace and has its own checks: `npm run bench:check`.
          exclude: ['**/node_modules/**', 'apps/bench/**', CORE, ...APART],
          ...FIRST,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'apart',
          pool: 'threads',
          include: APART,
          ...FIRST,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          // Some have time budgets of less than a second.
          name: 'faults',
          include: inFolders('faults'),
          globalSetup: ['./test/harness/global-setup.ts'],
          ...FIRST,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'beside',
          include: BESIDE,
          globalSetup: ['./test/harness/global-setup.ts'],
          // Importing the sources again for each file costs more CPU than most files.
          isolate: false,
          maxWorkers: 5,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'soak',
          include: SOAK,
          globalSetup: ['./test/harness/global-setup.ts'],
          ...TWO_AT_A_TIME,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'long',
          include: LONG,
          // More random cases (packages/core/src/testing/hostile.ts) than in `npm test`.
          env: { STAMPEDE_FUZZ_TIMES: process.env.STAMPEDE_FUZZ_TIMES ?? '2' },
          globalSetup: ['./test/harness/global-setup.ts'],
          ...SIDE_BY_SIDE,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'older',
          include: OLDER,
          // Other versions than in `npm test` (test/harness/versions.ts).
          env: { STAMPEDE_TEST_OLDER: '1' },
          globalSetup: ['./test/harness/global-setup.ts'],
          ...TWO_AT_A_TIME,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'older-beside',
          include: OLDER_BESIDE,
          env: { STAMPEDE_TEST_OLDER: '1' },
          globalSetup: [
            './test/harness/global-setup.ts',
            './test/harness/postgres-versions-setup.ts',
          ],
          ...SIDE_BY_SIDE,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'programs',
          include: inFolders(...PROGRAMS),
          globalSetup: ['./test/harness/global-setup.ts'],
          ...SIDE_BY_SIDE,
        },
      },
      olderNest('11'),
      olderNest('10'),
    ],
  },
})
