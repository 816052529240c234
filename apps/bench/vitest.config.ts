// Tests of the bench against the built packages: `npm run bench:check`. They need the compared
// packages, which `npm test` does not install.
import { defineConfig } from 'vitest/config'
import { reporters } from '../../tools/reporters.mjs'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 120_000,
    reporters,
  },
})
