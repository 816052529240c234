// Checks that keep people apart, each with a way to break it. The fuzzer has to notice every one.

import type { Mutation } from './mutation.ts'
import { ASKING } from './mutations-asking.ts'
import { KEYING } from './mutations-keying.ts'
import { STORING } from './mutations-storing.ts'

export const MUTATIONS: readonly Mutation[] = [...STORING, ...KEYING, ...ASKING]
