// Counts round trips from outside, by INFO commandstats before and after.
//
// Redis counts a command that a script calls like one that a client sends. They are distinguished
// so:
// - Commands that Redis refuses inside scripts (eval, evalsha, fcall, script, subscribe, multi,
//   ...) can only come from a client, and are counted.
// - Any other command (get, hset, publish, ...) is attributed to a script if any script ran in the
//   interval. If none ran, every command came from a client, and all are counted.
// - `also` names commands that a client sends beside scripts, if the test knows that no script
//   calls them (xrange, for example).
// - Setting up a connection (hello, auth, client, info, ...) is never counted, nor is PING: the
//   heartbeats of a process come with time, so a busy machine would count more of them.
//
// If that rule is too coarse, `RedisServer.traceCommands()` names every command's sender.

/** Calls per command, in lower case. Subcommands are `script|load`. */
export type CommandStats = Record<string, number>

const runsScript = ['eval', 'eval_ro', 'evalsha', 'evalsha_ro', 'fcall', 'fcall_ro']
const onlyFromClients = new Set([
  ...runsScript,
  ...['script', 'function', 'multi', 'exec', 'discard', 'watch', 'unwatch', 'monitor'],
  ...['subscribe', 'psubscribe', 'ssubscribe', 'unsubscribe', 'punsubscribe', 'sunsubscribe'],
])
const setsUpConnection = new Set([
  ...['hello', 'auth', 'select', 'client', 'command', 'info', 'config', 'cluster', 'role'],
  ...['readonly', 'readwrite', 'quit', 'reset', 'echo'],
])

/** Reads `INFO commandstats`, without the commands that the harness itself sends. */
export function parseCommandStats(info: string): CommandStats {
  const stats: CommandStats = {}
  for (const [, name = '', calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (!harnessSends.has(baseName(name))) stats[name] = Number(calls)
  }
  return stats
}

// `info` is also ioredis's ready check, which is part of opening a connection.
const harnessSends = new Set(['info', 'echo', 'config', 'monitor'])

/**
 * How many commands clients sent between two `commandStats()`. The head of this file has the rule.
 */
export function clientCommands(
  before: CommandStats,
  after: CommandStats,
  also: readonly string[] = [],
): number {
  const calls = new Map<string, number>()
  for (const [name, count] of Object.entries(after)) {
    calls.set(name, count - (before[name] ?? 0))
  }
  const aScriptRan = runsScript.some((name) => (calls.get(name) ?? 0) > 0)
  let sum = 0
  for (const [name, count] of calls) {
    const base = baseName(name)
    if (isConnectionSetUp(base) || base === 'ping') continue
    if (!aScriptRan || onlyFromClients.has(base) || also.includes(name)) sum += count
  }
  return sum
}

export function isConnectionSetUp(name: string): boolean {
  return setsUpConnection.has(baseName(name))
}

function baseName(name: string): string {
  return name.split('|')[0] ?? name
}
