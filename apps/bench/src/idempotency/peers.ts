// The compared libraries in the order of the columns. The page has their set-up.
import type { TablePeer } from '../lib/verdict-table.ts'

export interface Peer extends TablePeer {
  /** True: it trusts a holder that does not renew for 1.5 s. */
  readonly hasLease?: boolean
  /** Starts a server, in a process of its own, and resolves with its port. */
  readonly load: () => Promise<(redisUrl: string) => Promise<number>>
}

const VALUE_ONLY = 'it guards a function and stores its value; the caller writes the response'
const NO_STATUS = 'it sees a value or an error, not a status'
const NO_HEADER = 'its caller passes the key, not a header'

const ofValues = {
  ...{ stream: VALUE_ONLY, file: VALUE_ONLY, cookie: VALUE_ONLY, date: VALUE_ONLY },
  ...{ unavailable: NO_STATUS, limited: NO_STATUS },
}
const ofFunctions = { ...ofValues, quoted: NO_HEADER, 'two-lines': NO_HEADER, malformed: NO_HEADER }

export const peers: readonly Peer[] = [
  {
    ...{ id: 'stampede', name: '@stampede/express', hasLease: true },
    load: async () => (await import('./peers/express.ts')).startStampede,
  },
  {
    ...{ id: 'express-idempotency', name: 'express-idempotency' },
    load: async () => (await import('./peers/express.ts')).startExpressIdempotency,
  },
  {
    ...{ id: 'node-idempotency-nest', name: '@node-idempotency/nestjs' },
    load: async () => (await import('./peers/nest.ts')).start,
  },
  {
    ...{ id: 'node-idempotency-core', name: '@node-idempotency/core', notSupported: ofValues },
    load: async () => (await import('./peers/values.ts')).startCore,
  },
  {
    ...{ id: 'powertools', name: 'powertools', hasLease: true, notSupported: ofFunctions },
    load: async () => (await import('./peers/values.ts')).startPowertools,
  },
  {
    ...{ id: 'powertools-validated', name: 'powertools, payload validation' },
    ...{ hasLease: true, notSupported: ofFunctions },
    load: async () => (await import('./peers/values.ts')).startValidated,
  },
  {
    ...{ id: 'unguarded', name: 'no guard (the floor)' },
    load: async () => (await import('./peers/express.ts')).startUnguarded,
  },
]
