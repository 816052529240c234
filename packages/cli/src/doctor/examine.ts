// All checks of the doctor, in the order in which their findings are printed, within one deadline.

import { Unreachable } from '../errors.ts'
import { keyPrefixOf, type Settings, shownUrl, wholePrefix, within } from '../fleet.ts'
import { openConnections } from './connection.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { journeyFindings } from './journey.ts'
import { rightsFindings } from './rights.ts'
import { clockFinding, latencyFinding, messagesFinding } from './round-trips.ts'
import { readInfo, serverFindings } from './server-facts.ts'

/** Makes the findings of one check. */
type Work = () => Promise<readonly Finding[]>

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
  using connections = await within(leftMs(), openConnections(sooner(settings)))
  report(ok('connection', `${shownUrl(settings)} replies`))
  /** Reports and returns the findings of a check. Rejects if it got no reply in time. */
  const inspect = async (name: string, work: Work) => {
    try {
      const findings = await within(leftMs(), work())
      for (const finding of findings) report(finding)
      return findings
    } catch (error) {
      throw new Unreachable(`${name}: ${(error as Error).message}`)
    }
  }
  for (const { name, redis } of connections.nodes) {
    const onNode = (check: string, work: Work, ...ifRefused: Finding[]) =>
      inspect(check, async () => named(name, await unlessRefused(work, ifRefused)))
    const facts = await onNode(
      'server',
      async () => serverFindings(readInfo(await redis.info())),
      warn('server', NO_INFO, 'ACL SETUSER … +info'),
    )
    // A Sentinel has none of the commands that the other checks need.
    if (facts.some(({ check, level }) => check === 'mode' && level === 'fail')) return
    await onNode('clock', async () => [await clockFinding(redis, wallNow)])
    await onNode('latency', async () => [await latencyFinding(redis)])
  }
  await inspect('rights', () => rightsFindings(connections, prefix))
  const waitMs = Math.min(2_000, Math.ceil(leftMs() / 2))
  await inspect('messages', async () => [await messagesFinding(connections, prefix, waitMs)])
  await inspect('journey', () => journeyFindings(settings))
}

const NO_INFO = 'the ACL user may not run INFO, so version and eviction policy are unknown'

/** The first replies get less than all of the time, so that a finding can name the step. */
function sooner(settings: Settings): Settings {
  return { ...settings, timeoutMs: Math.ceil(0.8 * settings.timeoutMs) }
}

/** `ifRefused` if the server refuses the command. The check of the rights reports it, too. */
async function unlessRefused(
  work: Work,
  ifRefused: readonly Finding[],
): Promise<readonly Finding[]> {
  try {
    return await work()
  } catch (error) {
    const { name, message } = error as Error
    if (name === 'ReplyError' && message.startsWith('NOPERM')) return ifRefused
    throw error
  }
}

function keyPrefixFinding(settings: Settings, prefix: string): Finding {
  const keyPrefix = keyPrefixOf(settings)
  const origin = keyPrefix === '' ? '' : ` (keyPrefix ${keyPrefix}, prefix ${settings.prefix})`
  return ok('keyPrefix', `names of keys and channels begin with ${prefix}:${origin}`)
}

/** In a cluster, findings have the name of their node. */
function named(name: string, findings: readonly Finding[]): readonly Finding[] {
  if (name === '') return findings
  return findings.map((finding) => ({ ...finding, message: `${name}: ${finding.message}` }))
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
