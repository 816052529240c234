// @stampede/otel: OpenTelemetry spans and metrics of caches, idempotency keys and locks.

export { instrumentStampede } from './instrument.ts'
