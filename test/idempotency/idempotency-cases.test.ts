// Checks test/idempotency/CASES.md against the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

itIsHeldToTheTests('test/idempotency/CASES.md', 103)
