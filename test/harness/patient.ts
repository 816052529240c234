/**
 * Options of a store in a test that is not about budgets. A busy machine stalls for longer than the
 * default of 250 ms, and then the cache does without Redis.
 */
export const PATIENT = { commandTimeoutMs: 5_000 } as const
