// All cases of the comparison, in the order of the table.
import type { Case } from './case.ts'
import { fidelity } from './cases/fidelity.ts'
import { privacy } from './cases/privacy.ts'
import { stampedes } from './cases/stampedes.ts'

export const cases: readonly Case[] = [...stampedes, ...privacy, ...fidelity]
