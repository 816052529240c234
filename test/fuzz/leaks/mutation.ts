// A check that keeps people apart, and an edit that breaks it. A second line of defence is broken
// together with the first.

import type { FrameworkName } from './scenario.ts'

export interface Edit {
  /** A file in `packages/` or in `test/`. */
  readonly file: string
  /** Must occur in the file exactly once. */
  readonly from: string
  readonly to: string
}

export interface Mutation {
  readonly name: string
  readonly edits: readonly Edit[]
  /** The setting in which the mutation can be noticed. */
  readonly framework?: FrameworkName
}

export function drop(name: string, file: string, from: string, to = ''): Mutation {
  return { name, edits: [{ file, from, to }] }
}

export const SOURCE = {
  storable: 'core/src/cache/storable.ts',
  key: 'core/src/cache/key.ts',
  run: 'core/src/cache/run-origin.ts',
  statuses: 'core/src/cache/option-checks.ts',
  respond: 'core/src/cache/respond.ts',
  handle: 'core/src/cache/handle-cached.ts',
  admit: 'core/src/cache/admit.ts',
  validate: 'core/src/cache/validate.ts',
  vary: 'core/src/http/vary.ts',
  control: 'core/src/http/freshness.ts',
  headers: 'core/src/http/headers.ts',
  layer: 'node-http/src/response/capture.ts',
  koaRun: 'koa/src/run.ts',
  head: 'node-http/src/response/head.ts',
} as const
