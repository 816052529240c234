// Exports of @stampede/metrics.

export { type MetricsOptions, type StampedeMetrics, stampedeMetrics } from './stampede-metrics.ts'
