// Calls per command, by INFO commandstats, which counts commands of scripts and of clients alike.
// `RedisServer.traceCommands()` distinguishes them.

/** Calls per command, in lower case. Subcommands are `script|load`. */
export type CommandStats = Record<string, number>

/** Reads `INFO commandstats`, without the commands that the harness itself sends. */
export function parseCommandStats(info: string): CommandStats {
  const stats: CommandStats = {}
  for (const [, name = '', calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (!harnessSends.has(name.split('|')[0] ?? name)) stats[name] = Number(calls)
  }
  return stats
}

// `info` is also ioredis's ready check, which is part of opening a connection.
const harnessSends = new Set(['info', 'echo', 'config', 'monitor'])
