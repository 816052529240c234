// Versions of the packages of a cache, as installed here or in the cache's own folder.
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { installed } from '../verdicts/versions.ts'
import type { Peer } from './peer.ts'

const BENCH = new URL('../../', import.meta.url)

export const versionsOf = ({ packages, workspace }: Pick<Peer, 'packages' | 'workspace'>): string =>
  packages.map((name) => inWorkspace(name, workspace) ?? installed(name)).join(', ')

function inWorkspace(name: string, workspace: string | undefined): string | undefined {
  if (workspace === undefined) return undefined
  const path = fileURLToPath(new URL(`${workspace}/node_modules/${name}/package.json`, BENCH))
  if (!existsSync(path)) return undefined
  return `${name} ${JSON.parse(readFileSync(path, 'utf8')).version}`
}
