// Exports of @stampede/metrics.

export { type StampedeMetrics, stampedeMetrics } from './stampede-metrics.ts'
