// Four projects. `npm test` runs `unit` (beside the sources, no server), `redis` (fleets that measure time or count
// commands: one file at a time) and `pairs` (two files at a time). `npm run test:soak` runs `soak`. The folder of a
// test decides which project it belongs to (test/README.md).
// In-process tests run the sources: the workspaces' exports map `stampede:source` to ./src. Fleet
// members are separate processes and run the build, so that tier is started through `npm test`.
import { defineConfig } from 'vitest/config'

// Ours, then what Vitest sets by itself; `import` and `default` always count.
const conditions = ['stampede:source', 'node', 'development|production']

const shared = {
  resolve: { conditions },
  ssr: { resolve: { conditions } },
}

const inFolders = (...folders: string[]): string[] =>
  folders.map((folder) => `test/${folder}/**/*.test.ts`)

/** Storms, leaks, long fuzzing and the simulation: minutes long. Two at a time. */
const SOAK = inFolders('fuzz', 'simulation', 'soak')

/** Also part of `npm test`, with fewer random cases and on the current versions. */
const OTHER_IN_SOAK = ['packages/*/src/**/*.property.test.ts', 'test/**/*.versions.test.ts']

/** Files that do not measure time, or only bounds that a busy machine keeps too. Two at a time. */
const PAIRS = inFolders('attacks', 'contracts', 'http', 'idempotency', 'locks', 'protocol')

const common = {
  pool: 'forks' as const,
  testTimeout: 30_000,
  hookTimeout: 60_000,
  // Contracts run side by side where most of their time is waiting.
  maxConcurrency: 8,
  // Workspace packages are symlinks in node_modules; they are ours, so they are transformed.
  server: { deps: { inline: [/^@stampede\//] } },
}

const { STAMPEDE_TEST_REPORT: report } = process.env

export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
    projects: [
      {
        ...shared,
        test: {
          ...common,
          name: 'unit',
          include: ['packages/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts'],
          // The bench is no workspace and has its own checks: `npm run bench:check`.
          exclude: ['**/node_modules/**', 'apps/bench/**'],
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'redis',
          include: ['test/**/*.test.ts'],
          exclude: ['**/node_modules/**', ...SOAK, ...PAIRS],
          globalSetup: ['./test/harness/global-setup.ts'],
          // Fleets measure time and count commands: one file at a time, and after the unit tier.
          fileParallelism: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'pairs',
          include: PAIRS,
          globalSetup: ['./test/harness/global-setup.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'soak',
          testTimeout: 180_000,
          include: [...SOAK, ...OTHER_IN_SOAK],
          // More random cases (packages/core/src/testing/hostile.ts) and other versions
          // (test/harness/versions.ts) than in `npm test`.
          env: {
            STAMPEDE_FUZZ_TIMES: process.env.STAMPEDE_FUZZ_TIMES ?? '2',
            STAMPEDE_TEST_OLDER: '1',
          },
          globalSetup: ['./test/harness/global-setup.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
