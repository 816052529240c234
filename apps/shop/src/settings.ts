// The four environment variables of the demo, read once at start. Called by launch.ts.

export interface Settings {
  readonly port: number
  /** Artificial latency of every database query. */
  readonly originLatencyMs: number
  /** Undefined: the shop runs without Redis. */
  readonly redisUrl: string | undefined
  /** Number of shop processes. 1: the shop runs in one process, without a front. */
  readonly processes: number
}

/**
 * Reason why the shop cannot start, in one line: the variable, its value and the fix. Printed
 * without a stack.
 */
export class StartError extends Error {
  override readonly name = 'StartError'
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads PORT (3000), ORIGIN_LATENCY_MS (300), REDIS_URL (none) and PROCESSES (3). An empty value
 * counts as unset. Throws `StartError`.
 */
export function readSettings(env: Environment): Settings {
  return {
    port: readWhole(env, 'PORT', 3000, [0, 65_535], 'e.g. PORT=3000; 0 takes any free port'),
    originLatencyMs: readWhole(
      env,
      'ORIGIN_LATENCY_MS',
      300,
      [0, 10_000],
      'in milliseconds, e.g. 300',
    ),
    redisUrl: readRedisUrl(env.REDIS_URL?.trim()),
    processes: readWhole(env, 'PROCESSES', 3, [1, 8], 'e.g. PROCESSES=3'),
  }
}

function readWhole(
  env: Environment,
  name: string,
  byDefault: number,
  [min, max]: readonly [number, number],
  hint: string,
) {
  const text = env[name]?.trim() ?? ''
  if (text === '') return byDefault
  const value = Number(text)
  // Number() alone would accept '0x10', '1e3' and '3.0'.
  if (/^\d{1,9}$/.test(text) && value >= min && value <= max) return value
  throw new StartError(`${name}=${text}: use a whole number from ${min} to ${max}, ${hint}`)
}

function readRedisUrl(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const protocol = URL.canParse(text) ? new URL(text).protocol : undefined
  if (protocol === 'redis:' || protocol === 'rediss:') return text
  // The value may contain a password in a form that URL parsers do not recognise.
  const shown = text.includes('@') ? '(hidden, it may hold a password)' : text
  throw new StartError(
    `REDIS_URL=${shown}: use redis://host:port or rediss://host:port, or unset it to run without Redis`,
  )
}

/** Returns a Redis URL without its password, for messages. */
export function withoutPassword(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`
}
