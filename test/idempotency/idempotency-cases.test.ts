// Checks docs/idempotency-cases.md against the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

itIsHeldToTheTests('docs/idempotency-cases.md', 103)
