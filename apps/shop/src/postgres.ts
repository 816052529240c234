// PostgreSQL inside this process (PGlite). The creation of its data directory takes seconds of CPU
// time, so the first start stores an empty one in node_modules/.cache for later starts.

import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PGlite } from '@electric-sql/pglite'

const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/stampede', import.meta.url))

/** Opens an empty database in memory. */
export async function startPostgres(): Promise<PGlite> {
  const path = await pathOfVersion()
  const stored = await readFile(path).catch(() => undefined)
  if (stored !== undefined) return PGlite.create({ loadDataDir: new Blob([stored]) })
  const postgres = await PGlite.create()
  // Without a folder that is writable, each start creates the directory.
  await store(path, await postgres.dumpDataDir('none')).catch(() => {})
  return postgres
}

/** A data directory can be read only by the version that created it. */
async function pathOfVersion(): Promise<string> {
  const main = createRequire(import.meta.url).resolve('@electric-sql/pglite')
  const manifest = await readFile(join(dirname(main), '../package.json'), 'utf8')
  return join(CACHE, `postgres-${JSON.parse(manifest).version}.tar`)
}

/** Renames a complete file, because other processes may start at the same time. */
async function store(path: string, dump: Blob): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const part = `${path}.${process.pid}.${performance.now()}`
  await writeFile(part, new Uint8Array(await dump.arrayBuffer()))
  await rename(part, path)
}
