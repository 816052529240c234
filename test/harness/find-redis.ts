// Finds the Redis that the suite runs against: a binary on the PATH, else Docker, else apt as root.
// It never skips. Without a Redis the run fails, and the error says what to install. Called once
// per run.
import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { loadTestcontainers } from './testcontainers.ts'

/**
 * The data a test needs to start servers. It is plain data, because global set-up passes it to the
 * workers.
 */
export type RedisSource =
  | { readonly kind: 'binary'; readonly path: string }
  | { readonly kind: 'docker'; readonly image: string }

export interface FoundRedis {
  readonly source: RedisSource
  /** One line for the developer: which server, and how it was found. */
  readonly description: string
}

/** A server that can run as processes of this machine, with any options and in any number. */
export interface ServerBinary {
  readonly name: 'Redis' | 'Valkey'
  readonly source: RedisSource
}

/**
 * The binaries for clusters and Sentinels: every kind of server on the PATH. It is empty if only
 * Docker is there.
 */
export function findBinaries(env: NodeJS.ProcessEnv = process.env): ServerBinary[] {
  if (forcedWay(env.STAMPEDE_TEST_REDIS) === 'docker') return []
  return (['Redis', 'Valkey'] as const).flatMap((name) => {
    const path = onPath([`${name.toLowerCase()}-server`], env.PATH)
    return path === undefined ? [] : [{ name, source: { kind: 'binary', path } } as const]
  })
}

const ways = ['binary', 'docker', 'apt'] as const
type Way = (typeof ways)[number]

/** Tries the ways in order, or only the one that `STAMPEDE_TEST_REDIS` names. */
export async function findRedis(env: NodeJS.ProcessEnv = process.env): Promise<FoundRedis> {
  const forced = forcedWay(env.STAMPEDE_TEST_REDIS)
  const tried: string[] = []
  for (const way of forced ? [forced] : ways) {
    const found = await finders[way](env)
    if (typeof found !== 'string') return found
    tried.push(`${way}: ${found}`)
  }
  throw new Error(
    `No Redis for the tests (${tried.join('; ')}). ` +
      'Install redis-server or valkey-server so that it is on the PATH, or start Docker.',
  )
}

// Each finder returns a Redis, or the reason why there is none.
const finders: Record<Way, (env: NodeJS.ProcessEnv) => Promise<FoundRedis | string>> = {
  async binary(env) {
    const path = serverOnPath(env.PATH)
    if (!path) return 'neither redis-server nor valkey-server is on the PATH'
    return fromBinary(path, 'from the PATH')
  },

  async docker(env) {
    const image = env.STAMPEDE_TEST_REDIS_IMAGE || 'redis:7'
    try {
      // Installed and loaded only when needed, because it has more packages than half of all
      // others.
      const { getContainerRuntimeClient } = loadTestcontainers()
      const { containerRuntime } = (await getContainerRuntimeClient()).info
      return {
        source: { kind: 'docker', image },
        description: `image ${image} in Docker at ${containerRuntime.host}, by Testcontainers`,
      }
    } catch (error) {
      return `no engine answers (${error instanceof Error ? error.message : String(error)})`
    }
  },

  async apt(env) {
    if (!existsSync('/etc/debian_version')) return 'this is not Debian or Ubuntu'
    if (process.getuid?.() !== 0) return 'installing a package needs root'
    console.log('No Redis found: running apt-get update && apt-get install -y redis-server')
    const failure =
      aptGet(['update'], env) ??
      aptGet(['install', '-y', '--no-install-recommends', 'redis-server'], env)
    if (failure) return failure
    const path = serverOnPath(env.PATH)
    return path ? fromBinary(path, 'installed by apt-get') : 'installed, yet not on the PATH'
  },
}

function forcedWay(value: string | undefined): Way | undefined {
  if (!value) return undefined
  const way = ways.find((known) => known === value)
  if (!way)
    throw new Error(`STAMPEDE_TEST_REDIS must be one of ${ways.join(', ')}; it is '${value}'`)
  return way
}

function serverOnPath(path?: string): string | undefined {
  return onPath(['redis-server', 'valkey-server'], path)
}

/** The first of the programs that is in a folder of `path`. */
export function onPath(names: readonly string[], path = ''): string | undefined {
  for (const name of names) {
    for (const folder of path.split(delimiter).filter(Boolean)) {
      const file = join(folder, name)
      try {
        accessSync(file, constants.X_OK)
        return file
      } catch {
        // The binary is not in this folder, so try the next one.
      }
    }
  }
  return undefined
}

function fromBinary(path: string, how: string): FoundRedis {
  const version = execFileSync(path, ['--version'], { encoding: 'utf8' })
  const number = /v=(\S+)/.exec(version)?.[1] ?? version.trim()
  return { source: { kind: 'binary', path }, description: `${path} ${number}, ${how}` }
}

/** Returns the failure, if there is one. */
export function aptGet(args: readonly string[], env: NodeJS.ProcessEnv): string | undefined {
  const { status, stderr, error } = spawnSync('apt-get', args, {
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
  })
  if (status === 0) return undefined
  return `apt-get ${args[0]} failed: ${error?.message ?? stderr.trim()}`
}
