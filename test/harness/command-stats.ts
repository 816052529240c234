// Counting round trips from outside: INFO commandstats before and after.
//
// Redis counts a command that a script calls like one that a client sends. They are told apart so:
// - what Redis refuses inside scripts (eval, evalsha, fcall, script, subscribe, multi, ...) and PING
//   can only have come from a client, and is counted;
// - anything else (get, hset, publish, ...) is taken for a script's call, if a script ran in the
//   interval at all; if none ran, every command came from a client, and all are counted;
// - `also` names commands that a client does send beside scripts, where the test knows that no
//   script calls them (xrange, say);
// - setting up a connection (hello, auth, client, info, ...) is never counted.
// Where that rule is too coarse, `RedisServer.traceCommands()` tells every command's sender.

/** Calls per command, lower case; subcommands as `script|load`. */
export type CommandStats = Record<string, number>

const runsScript = ['eval', 'eval_ro', 'evalsha', 'evalsha_ro', 'fcall', 'fcall_ro']
const onlyFromClients = new Set([
  ...runsScript,
  ...['script', 'function', 'multi', 'exec', 'discard', 'watch', 'unwatch', 'ping', 'monitor'],
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

// `info` is also the ready check of ioredis: part of the set-up of a connection, no loss.
const harnessSends = new Set(['info', 'echo', 'config', 'monitor'])

/** How many commands clients sent between two `commandStats()`; see the head of this file. */
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
    if (isConnectionSetUp(base)) continue
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
