// Finds the programs of a PostgreSQL for the tests: a named folder, the PATH, or Debian's folders.
// It installs nothing, because Debian's package starts a server of the system. Called once per run.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The programs of a PostgreSQL. Plain data, because global set-up passes it to workers. */
export interface PostgresSource {
  /** The folder of its programs. */
  readonly bin: string
  /** Such as `15.18`. */
  readonly version: string
}

const HOW_TO_INSTALL =
  'Install it (Debian and Ubuntu: apt-get install postgresql), or name the folder of its programs ' +
  'in STAMPEDE_TEST_POSTGRES'
const DEBIAN = '/usr/lib/postgresql'
const OLDEST = 13
/** Packages for clients have some of them. */
const PROGRAMS = ['initdb', 'postgres', 'pg_basebackup', 'pg_waldump']

/**
 * The first PostgreSQL that has all programs. Undefined: there is none. Throws if
 * `STAMPEDE_TEST_POSTGRES` names a folder without them, so that a machine can insist on the tests.
 */
export function findPostgres(env: NodeJS.ProcessEnv = process.env): PostgresSource | undefined {
  const named = env.STAMPEDE_TEST_POSTGRES
  if (named) {
    const found = sourceIn(named, PROGRAMS)
    if (found) return found
    throw new Error(
      `STAMPEDE_TEST_POSTGRES is ${named}, which has not all of ${PROGRAMS.join(', ')}`,
    )
  }
  const folders = [...(env.PATH ?? '').split(delimiter).filter(Boolean), ...debianFolders()]
  for (const folder of folders) {
    const found = sourceIn(folder, PROGRAMS)
    if (found) return found
  }
  return undefined
}

/** One line for the developer: which PostgreSQL, or that its tests are skipped. */
export function describePostgres(source: PostgresSource | undefined): string {
  if (source) return `PostgreSQL for the tests: ${source.bin} ${source.version}`
  return `SKIPPED: test/postgres, because there is no PostgreSQL. ${HOW_TO_INSTALL}.`
}

/** Newest version first. Debian keeps these folders off the PATH. */
function debianFolders(): string[] {
  if (!existsSync(DEBIAN)) return []
  const versions = readdirSync(DEBIAN).map(Number).filter(Number.isFinite)
  return versions.sort((a, b) => b - a).map((version) => join(DEBIAN, String(version), 'bin'))
}

/** The PostgreSQL in a folder, if it has these programs and runs. */
export function sourceIn(bin: string, programs: readonly string[]): PostgresSource | undefined {
  if (!programs.every((program) => existsSync(join(bin, program)))) return undefined
  try {
    const text = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' })
    const version = /(\d+)\S*/.exec(text)
    if (version === null || Number(version[1]) < OLDEST) return undefined
    return { bin, version: version[0] }
  } catch {
    return undefined
  }
}
