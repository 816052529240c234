// The budgets of one warm request of each path. `npm run journey` prints today's counts. If a
// change lowers a count, lower its budget here. Never raise a budget to make a test pass. Some
// functions run only if a request takes some milliseconds. So budgets in memory allow up to three
// functions more than a quiet machine counts, and budgets of heap bytes allow a tenth more.

import type { Counts } from './measure.ts'

export const BUDGETS: Readonly<Record<string, Counts>> = {
  'Express route': { files: 0, functions: 0, promises: 0 },
  'Express miss': { files: 95, functions: 424, promises: 52 },
  'Express miss in memory': { files: 76, functions: 386, promises: 32 },
  'Express hit': { files: 26, functions: 66, promises: 0 },
  'Koa route': { files: 0, functions: 0, promises: 3 },
  'Koa miss': { files: 94, functions: 403, promises: 69 },
  'Koa miss in memory': { files: 75, functions: 365, promises: 49 },
  'Koa hit': { files: 28, functions: 70, promises: 2 },
  'first POST': { files: 68, functions: 324, promises: 47 },
  'first POST in memory': { files: 53, functions: 271, promises: 11 },
  replay: { files: 32, functions: 129, promises: 8 },
  'getOrSet miss': { files: 63, functions: 244, promises: 49 },
  'getOrSet miss in memory': { files: 44, functions: 205, promises: 29 },
  'getOrSet hit': { files: 14, functions: 27, promises: 1 },
}

/** Bytes of heap, in JSON of 2.3 kB. */
export const HEAP_BUDGETS: Readonly<Record<string, number>> = {
  'Express route': 41_000,
  'Express miss in memory': 81_000,
  'Koa route': 26_000,
  'Koa miss in memory': 66_000,
  'getOrSet miss': 65_000,
  'getOrSet miss in memory': 41_000,
}
