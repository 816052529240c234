// The budgets of one warm request of each path. `npm run journey` prints today's counts. If a
// change lowers a count, lower its budget here. Never raise a budget to make a test pass. Some
// functions run only if a request takes some milliseconds. So the budgets allow up to three
// functions more than a quiet machine counts, and budgets of heap bytes allow a tenth more.

import type { Counts } from './measure.ts'

export const BUDGETS: Readonly<Record<string, Counts>> = {
  'Express route': { files: 0, functions: 0, promises: 0 },
  'Express miss': { files: 67, functions: 332, promises: 10 },
  'Express miss in memory': { files: 55, functions: 268, promises: 6 },
  'Express hit': { files: 24, functions: 60, promises: 0 },
  'Koa route': { files: 0, functions: 0, promises: 3 },
  'Koa miss': { files: 66, functions: 312, promises: 15 },
  'Koa miss in memory': { files: 54, functions: 247, promises: 10 },
  'Koa hit': { files: 26, functions: 63, promises: 2 },
  'first POST': { files: 51, functions: 287, promises: 23 },
  'first POST in memory': { files: 42, functions: 241, promises: 10 },
  replay: { files: 29, functions: 114, promises: 7 },
  'getOrSet miss': { files: 35, functions: 179, promises: 6 },
  'getOrSet miss in memory': { files: 23, functions: 117, promises: 2 },
  'getOrSet hit': { files: 11, functions: 22, promises: 1 },
}

/** Bytes of heap, in JSON of 2.3 kB. */
export const HEAP_BUDGETS: Readonly<Record<string, number>> = {
  'Express route': 41_000,
  'Express miss in memory': 67_000,
  'Koa route': 26_000,
  'Koa miss in memory': 50_000,
  'getOrSet miss': 43_000,
  'getOrSet miss in memory': 19_500,
}
