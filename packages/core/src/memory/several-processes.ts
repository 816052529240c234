// Warns about records in process memory if several processes serve the app. Another process does
// not see these records, so a request can run twice, and two processes can hold one lock.

import cluster from 'node:cluster'
import { warnOnce } from '../warnings.ts'

const RISKS = {
  idempotency: `a repeated request can run again there. To share them, pass stampede: createStampede({ store: redisStore(redis) })`,
  createLocks: `it can hold the same lock at the same time. To share them, pass createLocks({ store: redisStore(redis) })`,
}

export function warnIfSeveralProcesses(user: keyof typeof RISKS): void {
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
