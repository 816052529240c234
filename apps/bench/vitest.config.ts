// Tests of the bench against the built packages: `npm run bench:check`. They need the compared
// packages, which `npm test` does not install.
import { defineConfig } from 'vitest/config'

const { STAMPEDE_TEST_REPORT: report } = process.env

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 120_000,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
})
