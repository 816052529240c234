// The budgets of one warm request of each path. `npm run journey` prints today's counts. If a
// change lowers a count, lower its budget here. Never raise a budget to make a test pass. Some
// functions run only if a request takes some milliseconds. So the budgets allow up to three
// functions more than a quiet machine counts, and budgets of heap bytes allow a tenth more.

import type { Counts } from './measure.ts'

export const BUDGETS: Readonly<Record<string, Counts>> = {
  'Express route': { files: 0, functions: 0, promises: 0 },
  'Express miss': { files: 96, functions: 453, promises: 15 },
  'Express miss in memory': { files: 75, functions: 364, promises: 7 },
  'Express hit': { files: 27, functions: 69, promises: 0 },
  'Koa route': { files: 0, functions: 0, promises: 3 },
  'Koa miss': { files: 90, functions: 417, promises: 20 },
  'Koa miss in memory': { files: 69, functions: 327, promises: 12 },
  'Koa hit': { files: 29, functions: 72, promises: 2 },
  'first POST': { files: 72, functions: 342, promises: 31 },
  'first POST in memory': { files: 58, functions: 287, promises: 11 },
  replay: { files: 33, functions: 135, promises: 8 },
  'getOrSet miss': { files: 58, functions: 256, promises: 10 },
  'getOrSet miss in memory': { files: 37, functions: 168, promises: 2 },
  'getOrSet hit': { files: 14, functions: 27, promises: 1 },
}

/** Bytes of heap, in JSON of 2.3 kB. */
export const HEAP_BUDGETS: Readonly<Record<string, number>> = {
  'Express route': 41_000,
  'Express miss in memory': 76_000,
  'Koa route': 26_000,
  'Koa miss in memory': 57_000,
  'getOrSet miss': 55_000,
  'getOrSet miss in memory': 29_500,
}
