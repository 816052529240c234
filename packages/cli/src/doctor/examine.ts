// All checks of the doctor, in the order in which their findings are printed, within one deadline.

import { Unreachable } from '../errors.ts'
import { keyPrefixOf, type Settings, shownUrl, wholePrefix, within } from '../fleet.ts'
import { type Connections, type Node, openConnections } from './connection.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { journeyFindings } from './journey.ts'
import { rightsFindings } from './rights.ts'
import { clockFinding, latencyFinding, messagesFinding } from './round-trips.ts'
import { readInfo, serverFindings } from './server-facts.ts'

/** Calls `report` with each finding. Rejects with `Unreachable` if the server stops replying. */
export async function examine(
  settings: Settings,
  report: (finding: Finding) => void,
  wallNow: () => number = Date.now,
): Promise<void> {
  const startedAt = performance.now()
  const leftMs = () => Math.max(1, settings.timeoutMs - (performance.now() - startedAt))
  const prefix = wholePrefix(settings)
  report(keyPrefixFinding(settings, prefix))
  const connections = await within(leftMs(), openConnections(sooner(settings)))
  report(ok('connection', `${shownUrl(settings)} replies`))
  /** Reports and returns the findings of a check. Rejects if it got no reply in time. */
  const check = async (name: string, work: () => Promise<readonly Finding[]>) => {
    try {
      const findings = await within(leftMs(), work())
      for (const finding of findings) report(finding)
      return findings
    } catch (error) {
      throw new Unreachable(`${name}: ${(error as Error).message}`)
    }
  }
  try {
    const { nodes, isCluster } = connections
    for (const node of nodes) {
      const facts = await check('server', async () => named(node, await nodeFindings(node)))
      // A Sentinel has none of the commands that the other checks need.
      if (facts.some((each) => each.check === 'mode' && each.level === 'fail')) return
      await check('clock', async () =>
        named(node, await unlessRefused(clockFinding(node.redis, wallNow))),
      )
      await check('latency', async () =>
        named(node, await unlessRefused(latencyFinding(node.redis))),
      )
    }
    await check('rights', () => rightsFindings(connections.commander, prefix, isCluster))
    await check('messages', async () => [await messages(connections, prefix, leftMs() / 2)])
    await check('journey', () => journeyFindings(settings))
  } finally {
    connections.close()
  }
}

/** The first replies get less than all of the time, so that a finding can name the step. */
function sooner(settings: Settings): Settings {
  return { ...settings, timeoutMs: Math.ceil(0.8 * settings.timeoutMs) }
}

function messages(connections: Connections, prefix: string, waitMs: number): Promise<Finding> {
  return messagesFinding(connections, prefix, Math.min(2_000, Math.ceil(waitMs)))
}

async function nodeFindings({ redis }: Node): Promise<readonly Finding[]> {
  try {
    return serverFindings(readInfo(await redis.info()))
  } catch (error) {
    if (!isRefused(error)) throw error
    const message = 'the ACL user may not run INFO, so version and eviction policy are unknown'
    return [warn('server', message, 'ACL SETUSER … +info')]
  }
}

/** No finding if the server refuses the command. Then the check of the rights reports it. */
async function unlessRefused(work: Promise<Finding>): Promise<Finding[]> {
  try {
    return [await work]
  } catch (error) {
    if (isRefused(error)) return []
    throw error
  }
}

function keyPrefixFinding(settings: Settings, prefix: string): Finding {
  const keyPrefix = keyPrefixOf(settings)
  const origin = keyPrefix === '' ? '' : ` (keyPrefix ${keyPrefix}, prefix ${settings.prefix})`
  return ok('keyPrefix', `names of keys and channels begin with ${prefix}:${origin}`)
}

/** In a cluster, findings have the name of their node. */
function named({ name }: Node, findings: readonly Finding[]): readonly Finding[] {
  if (name === '') return findings
  return findings.map((finding) => ({ ...finding, message: `${name}: ${finding.message}` }))
}

function isRefused(error: unknown): boolean {
  const { name, message } = error as Error
  return name === 'ReplyError' && message.startsWith('NOPERM')
}

/** The finding for a server that cannot be reached or stopped replying. */
export function unreachableFinding({ message }: Error): Finding {
  const isFrozen = /did not reply|no reply|timed out/i.test(message)
  return fail(
    'connection',
    message,
    isFrozen
      ? 'the server is frozen, overloaded or loading its data, or a firewall drops packets: look at its log, and at SLOWLOG GET'
      : 'check the address, password and TLS (rediss://) in --redis or REDIS_URL, and that the server runs',
  )
}
