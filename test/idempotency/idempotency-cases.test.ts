// Holds docs/idempotency-cases.md to the tests.

import { itIsHeldToTheTests } from '../harness/cases-page.ts'

itIsHeldToTheTests('docs/idempotency-cases.md', 103)
