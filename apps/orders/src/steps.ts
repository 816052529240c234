// The steps of an order, and when the demo kills the service.

export type Step = 'begins' | 'wrote the order' | 'moved the stock'

export const KEYS: readonly string[] = ['order-1', 'order-2', 'order-3', 'order-4', 'order-5']

/** The first try of these orders ends with the process, after this step. */
export const KILLS: ReadonlyMap<string, Step> = new Map<string, Step>([
  ['order-2', 'begins'],
  ['order-3', 'wrote the order'],
  ['order-4', 'moved the stock'],
])

/** Without a transaction: a repeat runs the handler when this lease of a killed process is over. */
export const LEASE_MS = 1_000
