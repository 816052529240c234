// Runs the property tests of all parsers of outside input with more cases and a new seed. Usage:
// `npm run fuzz:input -- --minutes 30`. It ends after that time, or with the first failure. The
// seed that it prints gives the same cases again.
// @ts-check
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
    times: { type: 'string', default: '5' },
  },
})
const until = Date.now() + Number(values.minutes) * 60_000
if (!(until > Date.now())) throw new Error(`--minutes: received ${values.minutes}; use a number`)

const UNIT = ['run', '--project', 'core', '--project', 'unit', 'property.test.ts']
const REDIS = ['run', '--project', 'beside', 'test/protocol/hostile-redis.test.ts']

/** @param {readonly string[]} args @param {number} seed */
async function run(args, seed) {
  const child = spawn('npx', ['vitest', ...args, '--testTimeout', '3600000'], {
    env: { ...process.env, STAMPEDE_FUZZ_SEED: String(seed), STAMPEDE_FUZZ_TIMES: values.times },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = await once(child, 'exit')
  return code === 0
}

for (let seed = Number(values.seed); Date.now() < until; seed++) {
  console.log(`--seed ${seed} --times ${values.times}`)
  if (!(await run(UNIT, seed)) || !(await run(REDIS, seed))) {
    console.error(`Failed: npm run fuzz:input -- --seed ${seed} --times ${values.times}`)
    process.exit(1)
  }
}
