// Checks test/locks/CASES.md against the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

itIsHeldToTheTests('test/locks/CASES.md', 60)
