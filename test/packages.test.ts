// Checks what a clone installs: few packages, from the registry that npm is set to. Tools for
// comparison, analysis and Docker have packages of their own, installed when first used.

import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { installOnDemand, loadOnDemand } from '../tools/on-demand.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

interface Locked {
  readonly version?: string
  readonly resolved?: string
  readonly link?: boolean
  readonly os?: readonly string[]
  readonly cpu?: readonly string[]
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

function lockedIn(path: string): [path: string, locked: Locked][] {
  const { packages } = JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
  return Object.entries(packages)
}

const lockfiles = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*package-lock.json'],
  {
    cwd: ROOT,
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((path) => path !== '')

const isForHere = ({ os, cpu }: Locked): boolean =>
  (os?.includes(process.platform) ?? true) && (cpu?.includes(process.arch) ?? true)

describe('npm install in a clone', () => {
  it('installs at most 400 packages', () => {
    const installed = lockedIn('package-lock.json').filter(
      ([path, locked]) => path.includes('node_modules/') && !locked.link && isForHere(locked),
    )
    expect(installed.length).toBeGreaterThan(200)
    expect(installed.length).toBeLessThanOrEqual(400)
  })

  it.each(lockfiles)('%s names no package registry', (path) => {
    for (const [name, { resolved = '' }] of lockedIn(path))
      expect(resolved, name).not.toMatch(/:\/\//)
  })
})

describe('the oldest version of a framework that a package allows', () => {
  it.each([
    ['express', 'express', 'oldest', 'express-4.17'],
    ['koa', 'koa', 'oldest', 'koa-2.13'],
    ['nest', '@nestjs/common', 'nest10', '@nestjs/common'],
  ])('is the one on which the contracts run, for @stampede/%s', (name, peer, folder, tested) => {
    const { peerDependencies } = JSON.parse(
      readFileSync(join(ROOT, `packages/${name}/package.json`), 'utf8'),
    )
    const [oldest = ''] = peerDependencies[peer].split(' || ')
    const locked = new Map(lockedIn(`test/harness/${folder}/package-lock.json`))
    expect(`^${locked.get(`node_modules/${tested}`)?.version}.`).toMatch(
      new RegExp(`^\\${oldest.replace('.', '\\.')}\\.`),
    )
  })
})

describe('the benchmark workspace', () => {
  it('links the packages of this repository', () => {
    const links = lockedIn('apps/bench/package-lock.json').filter(([, { link }]) => link)
    const names = ['core', 'express', 'koa', 'locks', 'node-http', 'redis']
    expect(links.map(([, { resolved }]) => resolved)).toEqual([
      'bentocache',
      ...names.map((name) => `../../packages/${name}`),
    ])
  })

  it('measures the versions of frameworks and clients that the tests use', () => {
    const versions = (path: string): Map<string, string | undefined> =>
      new Map(lockedIn(path).map(([name, { version }]) => [name, version]))
    const [bench, root] = [versions('apps/bench/package-lock.json'), versions('package-lock.json')]
    for (const name of ['express', 'express4', 'koa', 'ioredis', 'ioredis5', 'lru-cache']) {
      const path = `node_modules/${name}`
      expect(bench.get(path), name).toBe(root.get(path) ?? root.get(`packages/core/${path}`))
    }
  })
})

describe('a folder with packages of its own', () => {
  /** `tool` is in the folder itself, so that no registry is needed. */
  function folder(): string {
    const path = mkdtempSync(join(tmpdir(), 'stampede-on-demand-'))
    onTestFinished(() => rmSync(path, { recursive: true }))
    mkdirSync(join(path, 'tool'))
    const write = (file: string, content: object) =>
      writeFileSync(join(path, file), JSON.stringify(content))
    write('tool/package.json', { name: 'tool', version: '1.0.0', main: 'value.json' })
    write('tool/value.json', { made: 'here' })
    const manifest = { name: 'folder', dependencies: { tool: 'file:tool' } }
    write('package.json', manifest)
    const packages = {
      '': manifest,
      'node_modules/tool': { resolved: 'tool', link: true },
      tool: { version: '1.0.0' },
    }
    write('package-lock.json', { name: 'folder', lockfileVersion: 3, requires: true, packages })
    return path
  }
  const installedAt = (path: string) =>
    statSync(join(path, 'node_modules/.package-lock.json')).mtimeMs

  it('is installed at its first use only', () => {
    const path = folder()
    const lockfile = readFileSync(join(path, 'package-lock.json'))
    expect(loadOnDemand(path, 'tool')).toEqual({ made: 'here' })
    const first = installedAt(path)
    expect(loadOnDemand(path, 'tool')).toEqual({ made: 'here' })
    expect(installedAt(path)).toBe(first)
    expect(readFileSync(join(path, 'package-lock.json'))).toEqual(lockfile)
  })

  it('is installed again if its lockfile is newer', () => {
    const path = folder()
    installOnDemand(path)
    const first = installedAt(path)
    const later = new Date(first + 10)
    utimesSync(join(path, 'package-lock.json'), later, later)
    installOnDemand(path)
    expect(installedAt(path)).toBeGreaterThan(first)
  })

  it('is named in an error, with the command to run, if the installation fails', () => {
    const path = folder()
    writeFileSync(join(path, 'package.json'), 'no JSON')
    expect(() => installOnDemand(path)).toThrow(
      /cannot install the packages of .*; run npm --prefix/,
    )
  })
})
