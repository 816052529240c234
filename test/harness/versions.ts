// The versions a file `*.versions.test.ts` runs on: current in `npm test`, older in `npm run
// test:soak`.

/** vitest.config.ts sets it for the project of the soak tests. */
const isOlder = process.env.STAMPEDE_TEST_OLDER === '1'

export function ofThisRun<T>(current: readonly T[], older: readonly T[]): readonly T[] {
  return isOlder ? older : current
}
