// Exports of @stampede/metrics.

export { stampedeMetrics } from './stampede-metrics.ts'
