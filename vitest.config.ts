// Three projects: `unit` (beside the sources, no server), and of test/ `redis` (fleets that measure time or count commands: one file at a
// time) and `pairs` (what bears company: two files at a time).
// In-process tests run the sources: the workspaces' exports map `stampede:source` to ./src. Fleet
// members are separate processes and run the build, so that tier is started through `npm test`.
import { defineConfig } from 'vitest/config'

// Ours, then what Vitest sets by itself; `import` and `default` always count.
const conditions = ['stampede:source', 'node', 'development|production']

const shared = {
  resolve: { conditions },
  ssr: { resolve: { conditions } },
}

/** It has its own Redis, in memory. */
const SIMULATION = 'test/simulation.test.ts'

/** Long, and either at work all the time and in no hurry, or waiting most of it. */
const PAIRS = [
  ...['cluster', 'flood', 'freshness-differential', 'hostile-input', 'hostile-redis'],
  ...['http-contract', 'idempotency-adapters', 'l1-heap', 'layouts', 'leak-fuzz', 'leaks'],
  ...['middleware-orders', 'purge-log', 'quorum', 'regexes', 'short-way', 'shutdown'],
  ...['staleness', 'storm', 'two-layers'],
].map((name) => `test/${name}.test.ts`)

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
          include: ['packages/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts', SIMULATION],
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
          exclude: [SIMULATION, ...PAIRS],
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
    ],
  },
})
