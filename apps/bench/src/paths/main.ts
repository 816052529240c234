// Measures the CPU time of the server on each path: `npm run bench:paths [-- ID... --quick --out
// FOLDER]`. Writes results/benchmarks-paths.md, from the last run on each version of Node.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runServers } from '../compare/run-servers.ts'
import { paths } from '../compare/tables.ts'
import { startRedis } from '../lib/redis.ts'
import { withFloors } from '../lib/rows.ts'
import { inJson, RESULTS, readArguments, runInfo } from '../lib/run.ts'
import { type PathsRun, pathsPage, rawName, runsIn } from './page.ts'

const { folder, ids, isQuick } = readArguments(process.argv.slice(2))
const [rounds, roundMs, warmUpMs] = isQuick ? [1, 300, 500] : [11, 800, 3_000]
const info = runInfo()
const redis = await startRedis()
const plan = { title: 'paths', rounds, roundMs, warmUpMs, redisUrl: redis.url }
const rows = await runServers({ ...plan, rows: withFloors(paths, ids) })
await redis[Symbol.asyncDispose]()

const run: PathsRun = { ...info, redis: redis.version, roundMs, rows }
// A part of a run, or a quick run, is printed and not published.
const target = folder ?? (isQuick || ids.size > 0 ? undefined : RESULTS)
if (target === undefined) console.log(pathsPage([run]))
else {
  mkdirSync(target, { recursive: true })
  writeFileSync(join(target, rawName(run)), inJson(run))
  const page = pathsPage(runsIn(target))
  writeFileSync(join(target, 'benchmarks-paths.md'), page)
  console.log(page)
}
