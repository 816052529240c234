// Two projects: `unit` (beside the sources, no server) and `redis` (test/: contracts, fleets, faults).
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
          exclude: [SIMULATION],
          globalSetup: ['./test/harness/global-setup.ts'],
          // Fleets measure time and count commands: one file at a time, and after the unit tier.
          fileParallelism: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
