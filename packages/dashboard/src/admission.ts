// The decision which requests the dashboard answers. All others get the response that the app gives
// without a dashboard.

import type { IncomingMessage } from 'node:http'
import { warnOnce } from '@stampede/core/adapter'
import { optionError } from '@stampede/core/store'

/**
 * Returns or resolves to `true` if the caller may see the dashboard. `'insecure-local'`: each
 * client on this machine may.
 */
export type Authorize<Native> = ((native: Native) => boolean | Promise<boolean>) | 'insecure-local'

export type Admits<Native> = (native: Native, req: IncomingMessage) => boolean | Promise<boolean>

const FIX =
  "pass a function that returns true for requests of operators, or 'insecure-local' for clients on this machine"

/** Throws `ERR_STAMPEDE_OPTION` without an authorization. */
export function readAuthorize<Native>(where: string, value: unknown): Admits<Native> {
  if (value === 'insecure-local') {
    warnOnce('STAMPEDE_DASHBOARD', LOCAL)
    return (_native, req) => isLocal(req)
  }
  if (typeof value !== 'function') throw optionError(where, value, FIX)
  return (native) => ask(value as (native: Native) => unknown, native)
}

/** False if the function fails: an error response would tell that a dashboard is there. */
function ask<Native>(
  authorize: (native: Native) => unknown,
  native: Native,
): boolean | Promise<boolean> {
  try {
    const decision = authorize(native)
    if (!(decision instanceof Promise)) return isTrue(decision)
    return decision.then(isTrue, refuse)
  } catch {
    return refuse()
  }
}

function isTrue(decision: unknown): boolean {
  if (typeof decision === 'boolean') return decision
  warnOnce('STAMPEDE_DASHBOARD', NO_BOOLEAN)
  return false
}

function refuse(): boolean {
  warnOnce('STAMPEDE_DASHBOARD', FAILED)
  return false
}

const LOCAL =
  "a dashboard with authorize: 'insecure-local' answers every program and user of this machine. " +
  'Use a function in production: stampedeDashboard({ stampede, authorize: (req) => isOperator(req) })'
const FAILED =
  'authorize of stampedeDashboard threw or rejected, so it refuses. Return false for other clients'
const NO_BOOLEAN =
  'authorize of stampedeDashboard returned no boolean, so it refuses. Return true or false'

/** Fields that a proxy adds. Behind a proxy, each client has the address of this machine. */
const PROXY_FIELDS = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via']
const LOCAL_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i

/**
 * Whether the client is on this machine. The host is checked because a foreign page may have a
 * name that resolves to 127.0.0.1 (DNS rebinding).
 */
function isLocal({ socket, headers }: IncomingMessage): boolean {
  const address = socket.remoteAddress ?? ''
  const isLoopback = /^(?:::ffff:)?127\.|^::1$/.test(address)
  const host = headers.host ?? String(headers[':authority'] ?? '')
  return isLoopback && LOCAL_HOST.test(host) && !PROXY_FIELDS.some((name) => name in headers)
}
