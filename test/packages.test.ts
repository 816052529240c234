// Checks what a clone installs: few packages, from the registry that npm is set to. Tools for
// comparison, analysis and Docker have packages of their own, installed when first used.

import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
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
import { installCommand } from '../tools/packages/pack.mjs'

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
  it('installs at most 415 packages', () => {
    const installed = lockedIn('package-lock.json').filter(
      ([path, locked]) => path.includes('node_modules/') && !locked.link && isForHere(locked),
    )
    expect(installed.length).toBeGreaterThan(200)
    expect(installed.length).toBeLessThanOrEqual(415)
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

describe('npm run pack', () => {
  const packed = readdirSync(join(ROOT, 'packages')).map((name) => ({
    manifest: JSON.parse(readFileSync(join(ROOT, 'packages', name, 'package.json'), 'utf8')),
    tarball: join(ROOT, `tarballs/stampede-${name}-0.1.0.tgz`),
    files: [],
  }))
  const namesIn = (command: string) =>
    [...command.matchAll(/stampede-([\w-]+)-0\.1\.0\.tgz/g)].map(([, name]) => name)

  it.each([
    ['express', ['core', 'node-http', 'express']],
    ['express redis', ['core', 'node-http', 'express', 'redis']],
    ['cli', ['core', 'operate', 'redis', 'cli']],
    ['@stampede/nest @stampede/metrics', ['core', 'node-http', 'nest', 'metrics']],
  ])('prints the command that installs %s, with the packages they need', (asked, names) => {
    const command = installCommand(packed, asked.split(' '), join(ROOT, '../app'))
    expect(command).toMatch(/^npm install( \.\.\/[\w./-]+\.tgz)+$/)
    expect(namesIn(command)).toEqual(names)
  })

  it.each(packed)('prints a command without a missing package for $manifest.name', (each) => {
    const named = new Set(namesIn(installCommand(packed, [each.manifest.name], tmpdir())))
    for (const name of named) {
      const found = packed.find(({ manifest }) => manifest.name === `@stampede/${name}`)
      const { dependencies, peerDependencies, peerDependenciesMeta } = found?.manifest ?? {}
      for (const needed of Object.keys({ ...dependencies, ...peerDependencies }))
        if (needed.startsWith('@stampede/') && !peerDependenciesMeta?.[needed]?.optional)
          expect(named).toContain(needed.split('/')[1])
    }
  })

  it('prints absolute paths in the clone, and names the packages if one is unknown', () => {
    expect(installCommand(packed, ['koa'], ROOT)).toContain(` ${join(ROOT, 'tarballs')}/`)
    expect(() => installCommand(packed, ['exprss'], ROOT)).toThrow(
      /unknown package exprss; use one of .*express/,
    )
  })
})

describe('a documented command', () => {
  const files = execFileSync('git', ['ls-files', '*.md', '*.ts', '*.tsx', '*.mjs', '*.json'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 1e8,
  })
    .split('\n')
    // The changelog quotes earlier versions.
    .filter((path) => path !== '' && path !== 'CHANGELOG.md')
  const linesWith = (pattern: RegExp): string[] =>
    files.flatMap((path) =>
      readFileSync(join(ROOT, path), 'utf8')
        .split('\n')
        .filter((line) => pattern.test(line))
        .map((line) => `${path}: ${line.trim()}`),
    )

  // Without the scope, npm would run another package of that name.
  it('names the scope of the program', () => {
    expect(linesWith(/\b(npx|dlx|bunx|npm exec)( -\S+)* stampede\b/)).toEqual([])
  })

  // The braces are expanded only by some shells.
  it('has no braces in the names of tarballs', () => {
    expect(linesWith(/stampede-\{[\w,-]+\}-/)).toEqual([])
  })

  it('says how to get packages of ours before they are published', () => {
    const inBlocks = files
      .filter((path) => path.endsWith('.md'))
      .flatMap((path) => {
        const blocks = readFileSync(join(ROOT, path), 'utf8').split(/^```/m)
        return blocks
          .filter((block) => /^npm (install|i|add) .*@stampede\//m.test(block))
          .filter((block) => !/^sh\n# Once published\. Until then: /.test(block))
          .map((block) => `${path}: ${block}`)
      })
    expect(inBlocks).toEqual([])
    expect(linesWith(/`npm install [^`]*@stampede\//)).toEqual([])
  })
})

describe('the benchmark workspace', () => {
  it('links the packages of this repository', () => {
    const links = lockedIn('apps/bench/package-lock.json').filter(([, { link }]) => link)
    const names = ['core', 'express', 'koa', 'locks', 'node-http', 'postgres', 'redis']
    expect(links.map(([, { resolved }]) => resolved)).toEqual([
      'bentocache',
      ...names.map((name) => `../../packages/${name}`),
    ])
  })

  it('measures the versions of frameworks and clients that the tests use', () => {
    const versions = (path: string): Map<string, string | undefined> =>
      new Map(lockedIn(path).map(([name, { version }]) => [name, version]))
    const [bench, root] = [versions('apps/bench/package-lock.json'), versions('package-lock.json')]
    for (const name of ['express', 'express4', 'koa', 'ioredis', 'ioredis5', 'lru-cache', 'pg']) {
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
