// @stampede/otel: OpenTelemetry spans and metrics of caches, idempotency keys and locks.

export { instrumentStampede, type StampedeInstrumentation } from './instrument.ts'
