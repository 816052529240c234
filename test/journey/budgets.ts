// The budgets of one warm request of each path. `npm run journey` prints today's counts. If a
// change lowers a count, lower its budget here. Never raise a budget to make a test pass. Some
// functions run only if a request takes some milliseconds. So the budgets allow up to three
// functions more than a quiet machine counts, and budgets of heap bytes allow a tenth more.

import type { Counts } from './measure.ts'

export const BUDGETS: Readonly<Record<string, Counts>> = {
  'Express route': { files: 0, functions: 0, promises: 0 },
  'Express miss': { files: 45, functions: 290, promises: 7 },
  'Express miss in memory': { files: 35, functions: 230, promises: 3 },
  'Express hit': { files: 18, functions: 50, promises: 0 },
  'Koa route': { files: 0, functions: 0, promises: 3 },
  'Koa miss': { files: 45, functions: 277, promises: 12 },
  'Koa miss in memory': { files: 35, functions: 215, promises: 7 },
  'Koa hit': { files: 18, functions: 51, promises: 2 },
  'first POST': { files: 33, functions: 210, promises: 15 },
  'first POST in memory': { files: 29, functions: 181, promises: 3 },
  replay: { files: 21, functions: 80, promises: 3 },
  'getOrSet miss': { files: 30, functions: 166, promises: 6 },
  'getOrSet miss in memory': { files: 20, functions: 107, promises: 2 },
  'getOrSet hit': { files: 10, functions: 16, promises: 1 },
}

/** Bytes of heap, in JSON of 2.3 kB. */
export const HEAP_BUDGETS: Readonly<Record<string, number>> = {
  'Express route': 41_000,
  'Express miss in memory': 61_000,
  'Koa route': 26_000,
  'Koa miss in memory': 44_000,
  'first POST in memory': 60_000,
  'getOrSet miss': 41_500,
  'getOrSet miss in memory': 19_100,
}

/** Files that an import of core, redis and express loads. */
export const IMPORTED_FILES = 166
