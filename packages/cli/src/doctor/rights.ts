// Tries every command that Stampede sends, by harmless calls on keys of its own. So the rights of
// the user are known for certain.

import { randomBytes } from 'node:crypto'
import { names } from '@stampede/redis/operator'
import type { Connections } from './connection.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

type Names = ReturnType<typeof names>

/** A call with its arguments. */
type Call = readonly [command: string, ...args: Array<string | number>]

/** The keys live for this long, if the program is killed before it deletes them. */
const KEPT_MS = 10_000

/**
 * A harmless call of each command. A test checks that docs/guide/redis-topologies.md lists the
 * same commands.
 */
export function callsOf(root: string): Call[] {
  const [hash, stream, sorted] = ['hash', 'log', 'set'].map((name) => `${root}:${name}`) as [
    string,
    string,
    string,
  ]
  const sha1 = 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db' // of the script below
  return [
    ['PING'],
    ['TIME'],
    ['HSET', hash, 'a', '1'],
    ['PEXPIRE', hash, KEPT_MS],
    ['HMGET', hash, 'a'],
    ['HGET', hash, 'a'],
    ['HGETALL', hash],
    ['HKEYS', hash],
    ['EXISTS', hash],
    ['TYPE', hash],
    ['PTTL', hash],
    ['PERSIST', hash],
    ['HDEL', hash, 'a'],
    ['XADD', stream, '*', 'a', '1'],
    ['PEXPIRE', stream, KEPT_MS],
    ['XTRIM', stream, 'MAXLEN', '~', 10],
    ['XRANGE', stream, '-', '+', 'COUNT', 1],
    ['ZADD', sorted, 1, 'a'],
    ['PEXPIRE', sorted, KEPT_MS],
    ['ZCARD', sorted],
    ['ZCOUNT', sorted, '-inf', '+inf'],
    ['ZRANGE', sorted, 0, 0],
    ['ZRANGEBYSCORE', sorted, '-inf', '+inf'],
    ['ZREMRANGEBYRANK', sorted, 0, 0],
    ['EVAL', 'return 1', 1, hash],
    ['EVALSHA', sha1, 1, hash],
    ['DEL', hash],
    ['DEL', stream],
    ['DEL', sorted],
  ]
}

/** The user of the connection, for fixes. */
const USER = 'the ACL user'
const PAGE = 'docs/guide/redis-topologies.md#permissions has all lines'

export async function rightsFindings(connections: Connections, prefix: string): Promise<Finding[]> {
  const { client, database, isCluster } = connections
  const all = names(prefix, database)
  const id = randomBytes(6).toString('hex')
  const pattern = names(prefix).wakePrefix.replace(/wake:$/, '')
  const root = `${pattern}{doctor:${id}}`
  const calls = callsOf(root)
  if (isCluster) calls.push(['CLUSTER', 'SLOTS'], ['CLUSTER', 'INFO'])
  const refused = new Set<string>()
  let isKeyRefused = false
  for (const call of calls) {
    const answer = await tryCall(client, ...call)
    if (answer === 'command') refused.add(rightOf(call))
    if (answer === 'key') isKeyRefused = true
  }
  const findings = [commandFinding(refused, calls.length)]
  if (isKeyRefused) {
    const message = `${USER} may not use the keys ${pattern}*`
    findings.push(fail('keys', message, `ACL SETUSER … ~${pattern}*; or check --prefix`))
  }
  findings.push(await channelFinding(connections, all, pattern, id))
  findings.push(await scanFinding(client, pattern))
  return findings
}

function commandFinding(refused: ReadonlySet<string>, tried: number): Finding {
  if (refused.size === 0)
    return ok('commands', `${tried} calls of the commands in use were accepted`)
  const list = [...refused].join(', ')
  const rules = [...refused].map((right) => `+${right.toLowerCase()}`).join(' ')
  return fail('commands', `${USER} may not run ${list}`, `ACL SETUSER … ${rules}; ${PAGE}`)
}

async function channelFinding(
  { client, subscriber }: Connections,
  { wakePrefix, grantPrefix, settledChannel, logChannel }: Names,
  pattern: string,
  id: string,
): Promise<Finding> {
  // No process listens to the first two channels. A message on the others would make each process
  // read the purge log, so only the subscription to them is tried.
  const own = [`${wakePrefix}doctor-${id}`, `${grantPrefix}doctor-${id}`]
  const refused = new Set<string>()
  for (const channel of own)
    if ((await tryCall(client, 'PUBLISH', channel, '')) !== 'accepted') refused.add('PUBLISH')
  const channels = [...own, settledChannel, logChannel]
  const subscribed = await outcomeOf(async () => {
    await subscriber.subscribe(...channels)
    await subscriber.unsubscribe(...channels)
  })
  if (subscribed !== 'accepted') refused.add('SUBSCRIBE')
  if (refused.size === 0) return ok('channels', `may publish and subscribe on ${pattern}*`)
  const list = [...refused]
  const message = `${USER} may not ${list.join(' or ')} on ${pattern}*: waiters are woken late`
  const rules = list.map((right) => `+${right.toLowerCase()}`).join(' ')
  return fail('channels', message, `ACL SETUSER … &${pattern}* ${rules}; ${PAGE}`)
}

async function scanFinding(client: Connections['client'], pattern: string): Promise<Finding> {
  const answer = await tryCall(client, 'SCAN', 0, 'MATCH', `${pattern}{doctor*`, 'COUNT', 1)
  if (answer === 'accepted') return ok('scan', 'may list keys')
  const message = `${USER} may not run SCAN: lists of locks and idempotency keys do not work`
  return warn('scan', message, 'ACL SETUSER … +scan; the application does not need it')
}

type Outcome = 'accepted' | 'command' | 'key'

function tryCall(client: Connections['client'], ...[command, ...args]: Call): Promise<Outcome> {
  return outcomeOf(() => client.call(command, ...args))
}

/** Any other error shows that the command was allowed. */
async function outcomeOf(work: () => Promise<unknown>): Promise<Outcome> {
  try {
    await work()
    return 'accepted'
  } catch (error) {
    const { name, message } = error as Error
    if (name !== 'ReplyError') throw error
    if (!message.startsWith('NOPERM')) return 'accepted'
    return /\bkeys?\b|\bchannels?\b/.test(message) ? 'key' : 'command'
  }
}

/** `CLUSTER|SLOTS` for a subcommand, as ACL names it. */
function rightOf([command, first]: Call): string {
  return command === 'CLUSTER' ? `${command}|${first}` : command
}
