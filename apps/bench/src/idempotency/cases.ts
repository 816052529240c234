// All cases of the comparison, in the order of the table.
import type { Case } from './cases/case.ts'
import { crashes } from './cases/crashes.ts'
import { duplicates } from './cases/duplicates.ts'
import { failures } from './cases/failures.ts'
import { fidelity } from './cases/fidelity.ts'
import { identity } from './cases/identity.ts'
import { keys } from './cases/keys.ts'
import { outages } from './cases/outages.ts'

export const cases: readonly Case[] = [
  ...duplicates,
  ...fidelity,
  ...identity,
  ...keys,
  ...failures,
  ...crashes,
  ...outages,
]
