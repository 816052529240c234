// Counts what one warm request of each path costs: functions and promises. With names of paths as
// arguments, only their bytes of heap. `measure.ts` runs it on the build. It prints JSON.
// @ts-check
import { createHook } from 'node:async_hooks'
import { Session } from 'node:inspector'
import { makePaths } from './paths.mjs'

/** @typedef {import('./paths.mjs').Path} Path */

/** The first 100 requests of a cache run code that later ones do not. */
const FIRST = 100
const WARM_UP = 20
const COUNTED = 8
const HEAP_WARM_UP = 3_000
const HEAP_ROUNDS = 12
const HEAP_REQUESTS = 100

/** No request of another run on the same Redis has these keys. */
let index = Date.now()

/** @param {Path} path @param {number} requests */
function run(path, requests) {
  return new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    let left = requests
    const next = () => {
      if (left === 0) resolve()
      else {
        left -= 1
        path.call(index++, () => setImmediate(next))
      }
    }
    next()
  })
}

/** @param {Path} path @param {() => void} [look] called before each look at the path */
function idle(path, look = () => {}) {
  return new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    const again = () => {
      look()
      if (path.isIdle()) resolve()
      else setImmediate(again)
    }
    setImmediate(again)
  })
}

const inspector = new Session()
inspector.connect()

/** Functions of the packages that ran since the last call, as `package/file.js function`. */
function executed() {
  /** @type {string[]} */
  const names = []
  inspector.post('Profiler.takePreciseCoverage', (error, coverage) => {
    if (error !== null) throw error
    for (const { url, functions } of coverage.result) {
      const [, name, file] = /\/packages\/([\w-]+)\/dist\/(.*)$/.exec(url) ?? []
      if (file === undefined) continue
      for (const { functionName, ranges } of functions) {
        const [range] = ranges
        if (range === undefined || range.count === 0) continue
        names.push(`${name}/${file} ${functionName || '(anonymous)'}@${range.startOffset}`)
      }
    }
  })
  return names
}

/** Functions that ran in each of some requests, so that no timer in between counts. */
async function functionsOf(/** @type {Path} */ path) {
  /** @type {Set<string> | undefined} */
  let all
  for (let i = 0; i < COUNTED; i++) {
    /** @type {Set<string>} */
    const ran = new Set()
    executed()
    await run(path, 1)
    // A look at the path runs functions, too.
    const look = () => {
      for (const each of executed()) ran.add(each)
    }
    const isIdle = () => {
      const is = path.isIdle()
      executed()
      return is
    }
    await idle({ ...path, isIdle }, look)
    all = all === undefined ? ran : new Set([...all].filter((each) => ran.has(each)))
  }
  return [...(all ?? [])].sort()
}

/** The least of some requests. */
async function promisesOf(/** @type {Path} */ path) {
  let made = 0
  const hook = createHook({
    init(_id, type) {
      if (type === 'PROMISE') made += 1
    },
  })
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < COUNTED; i++) {
    await new Promise((resolve) => {
      setImmediate(() => {
        made = 0
        hook.enable()
        path.call(index++, () => setImmediate(resolve, undefined))
      })
    })
    // The promises of this function come after the request.
    hook.disable()
    least = Math.min(least, made)
    await idle(path)
  }
  return least
}

/** Growth of the heap in one request. Nothing is collected, for the young generation is large. */
async function heapOf(/** @type {Path} */ path) {
  await run(path, HEAP_WARM_UP)
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < HEAP_ROUNDS; i++) {
    await idle(path)
    globalThis.gc?.()
    const before = process.memoryUsage().heapUsed
    await run(path, HEAP_REQUESTS)
    least = Math.min(least, (process.memoryUsage().heapUsed - before) / HEAP_REQUESTS)
  }
  return Math.round(least)
}

const { paths, close } = makePaths()
const heapPaths = process.argv.slice(2)
/** @type {Record<string, number | { functions: string[], promises: number }>} */
const counted = {}
if (heapPaths.length > 0) {
  for (const path of paths) {
    if (heapPaths.includes(path.name)) counted[path.name] = await heapOf(path)
  }
} else {
  /** @type {Map<string, number>} */
  const promises = new Map()
  for (const path of paths) {
    await run(path, FIRST)
    await idle(path)
    promises.set(path.name, await promisesOf(path))
  }
  // It comes last, because it slows everything down.
  inspector.post('Profiler.enable')
  inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  for (const path of paths) {
    await run(path, WARM_UP)
    await idle(path)
    const functions = await functionsOf(path)
    counted[path.name] = { functions, promises: promises.get(path.name) ?? 0 }
  }
}
console.log(JSON.stringify(counted))
await close()
