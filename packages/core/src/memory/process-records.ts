// Records in the memory of one process: their hooks, clock and fences. If several processes serve
// the app, another process does not see these records. Then a request can run twice, and two
// processes can hold one lock, so `attach` warns.

import cluster from 'node:cluster'
import { storeInUse } from '../errors.ts'
import type { Clock } from '../ports/clock.ts'
import { Fences } from '../ports/grant.ts'
import { warnOnce } from '../warnings.ts'

/** The function that attaches the records. */
type User = Parameters<typeof storeInUse>[0]

/** A part of the memory store. It has one user, whose clock it follows. */
export abstract class ProcessRecords<Hooks extends { readonly clock: Clock }> {
  readonly name = 'memory'
  protected hooks: Hooks | undefined
  /** Outlives each record, so that a new record of a key gets a higher fence. */
  protected readonly fences: Fences = new Fences({
    wallNow: () => this.hooks?.clock.wallNow() ?? 0,
  })
  protected abstract readonly user: User

  attach(hooks: Hooks): void {
    if (this.hooks !== undefined) throw storeInUse(this.user)
    if (this.user !== 'createStampede') warnIfSeveralProcesses(this.user)
    this.hooks = hooks
  }

  now(): number {
    return this.hooks?.clock.now() ?? 0
  }
}

const RISKS = {
  idempotency: `a repeated request can run again there. To share them, pass stampede: createStampede({ store: redisStore(redis) })`,
  createLocks: `it can hold the same lock at the same time. To share them, pass createLocks({ store: redisStore(redis) })`,
}

function warnIfSeveralProcesses(user: keyof typeof RISKS): void {
  const sign = signOfSeveralProcesses()
  if (sign === undefined) return
  const what = user === 'createLocks' ? 'locks' : 'idempotency keys'
  const text = `${what} are in the memory of this process, but ${sign}. Another process does not see them`
  warnOnce('STAMPEDE_PROCESS_MEMORY', `${text}: ${RISKS[user]}.`)
}

/**
 * Undefined for the only instance of an app under PM2. In cluster mode it is a worker, too, so the
 * variables of PM2 count first.
 */
function signOfSeveralProcesses(): string | undefined {
  const { NODE_APP_INSTANCE: instance, instances, pm_id: pm2 } = process.env
  if (Number(instance) > 0) return `PM2 runs several instances (NODE_APP_INSTANCE is ${instance})`
  if (pm2 !== undefined && Number(instances) > 1) return `PM2 runs ${instances} instances`
  if (instance !== undefined || !cluster.isWorker) return undefined
  return 'this process is a worker of node:cluster'
}
