// Exports of @stampede/metrics.

export type { LockStats } from './metric-table.ts'
export { type MetricsOptions, type StampedeMetrics, stampedeMetrics } from './stampede-metrics.ts'
