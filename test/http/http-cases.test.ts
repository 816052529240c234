// Checks test/http/CASES.md against the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

const numbered = (letter: string, length: number): string[] =>
  Array.from({ length }, (_, i) => `${letter}${i + 1}`)

itIsHeldToTheTests('test/http/CASES.md', [
  ...numbered('R', 12),
  ...numbered('N', 46),
  ...numbered('Q', 16),
])
