// Versions of the installed packages, from their package.json.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Returns `name version`. For an alias (`redis4`), the name of the package behind it. */
export function installed(name: string): string {
  for (let dir = dirname(fileURLToPath(import.meta.url)); ; dir = dirname(dir)) {
    const path = join(dir, 'node_modules', name, 'package.json')
    if (existsSync(path)) {
      const found = JSON.parse(readFileSync(path, 'utf8')) as { name: string; version: string }
      return `${found.name} ${found.version}`
    }
    if (dir === dirname(dir)) return `${name} (not installed)`
  }
}
