// Checks docs/lock-cases.md against the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

itIsHeldToTheTests('docs/lock-cases.md', 60)
