// @stampede/core/testing: time, origins and events under a test's control. It needs no test runner.

export { toHeaders } from '../http/headers.ts'
export { type Compared, type Comparison, compare, type Difference } from './differential.ts'
export { occasionsIn } from './event-docs.ts'
export { type Forged, forgeFrame, keyDigest, turnBit, withChecksum } from './frames.ts'
export { HOSTILE_PIECES, LONG, repeated, runs } from './hostile.ts'
export { ManualClock, settled } from './manual-clock.ts'
export { RecordStore } from './record-store.ts'
export { type Run, ScriptedOrigin } from './scripted-origin.ts'
export { type Answered, type Asked, type Got, ScriptedRequest, send } from './scripted-request.ts'
export { TraceTranscript } from './trace-transcript.ts'
export { type ListTransaction, TransactionDouble } from './transaction-double.ts'
export { Transcript } from './transcript.ts'
