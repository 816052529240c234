// A check of ours that keeps people apart, and a way to break it; those that are a second line of defence are broken together with the
// first.

import type { FrameworkName } from './scenario.ts'

export interface Edit {
  /** In `packages/`, or in `test/`. */
  readonly file: string
  /** There exactly once. */
  readonly from: string
  readonly to: string
}

export interface Mutation {
  readonly name: string
  readonly edits: readonly Edit[]
  /** Where else it could not be noticed. */
  readonly framework?: FrameworkName
}

export function drop(name: string, file: string, from: string, to = ''): Mutation {
  return { name, edits: [{ file, from, to }] }
}

export const SOURCE = {
  storable: 'core/src/cache/storable.ts',
  key: 'core/src/cache/key.ts',
  run: 'core/src/cache/run-origin.ts',
  statuses: 'core/src/http/statuses.ts',
  respond: 'core/src/cache/respond.ts',
  handle: 'core/src/cache/handle-cached.ts',
  admit: 'core/src/cache/admit.ts',
  validate: 'core/src/cache/validate.ts',
  vary: 'core/src/http/vary.ts',
  control: 'core/src/http/cache-control.ts',
  headers: 'core/src/http/headers.ts',
  layer: 'node-http/src/response/response-layer.ts',
  koaRun: 'koa/src/koa-run.ts',
} as const
