// Holds docs/lock-cases.md to the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

itIsHeldToTheTests('docs/lock-cases.md', 60)
