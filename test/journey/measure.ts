// Runs `count.mjs` in a process of its own, and returns its counts by path.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export interface Counts {
  readonly files: number
  readonly functions: number
  readonly promises: number
}

export interface Counted extends Counts {
  /** As `package/file.js function@offset`. */
  readonly executed: readonly string[]
}

const COUNT = fileURLToPath(new URL('count.mjs', import.meta.url))
/** No collection comes in between, so the growth of the heap is what was allocated. */
const LARGE_YOUNG = ['--expose-gc', '--min-semi-space-size=128', '--max-semi-space-size=128']

const HEAP_PROCESSES = 3

/** In the order of the paths. */
export async function measure(url: string): Promise<Map<string, Counted>> {
  const counted = await ran<{ functions: string[]; promises: number }>(url, [COUNT])
  return new Map(
    Object.entries(counted).map(([name, { functions: executed, promises }]) => {
      const files = new Set(executed.map((each) => each.split(' ')[0])).size
      return [name, { files, functions: executed.length, promises, executed }]
    }),
  )
}

/**
 * Bytes of heap by path: the least of some processes, because V8 may inline other functions in
 * each. Takes seconds, because it waits until V8 has optimised the path.
 */
export async function measureHeap(url: string, paths: readonly string[]) {
  const least = new Map<string, number>()
  for (let i = 0; i < HEAP_PROCESSES; i++) {
    const bytes = await ran<number>(url, [...LARGE_YOUNG, COUNT, ...paths])
    for (const [name, each] of Object.entries(bytes)) {
      least.set(name, Math.min(each, least.get(name) ?? each))
    }
  }
  return least
}

async function ran<T>(url: string, args: readonly string[]): Promise<Record<string, T>> {
  const env = { ...process.env, NODE_ENV: 'production', REDIS_URL: url }
  const options = { env, maxBuffer: 64 * 1024 * 1024 }
  const { stdout } = await promisify(execFile)(process.execPath, args, options)
  return JSON.parse(stdout)
}
