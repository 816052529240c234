// The check of commit messages (`tools/commits.mjs`): its rules, and the commits that it reads.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { faultsOf, newCommits } from '../tools/commits.mjs'

const commit = (subject: string, { body = '', lines = 1, parents = 1 } = {}) => ({
  ...{ id: 'abc', subject, body, lines, parents },
})

describe('the message of a commit', () => {
  it.each([
    commit('fix(redis): honour the keyPrefix of an ioredis client'),
    commit('docs(cli): explain the fence line of why', { body: 'It was asked.', lines: 400 }),
    commit('fix(core): send fwd=vary-miss when a variant is missing', { lines: 10 }),
    commit('test(express, koa): share the scripted core of the cache tests'),
    commit('build: run the checks of commits in `npm run check`'),
    commit('docs(words): name `those and it` as unclear'),
    commit('perf(core): send a first POST faster', { body: 'From 120 to 90 functions.' }),
    commit('merge: run fewer files for a cache miss', { parents: 2, lines: 900 }),
  ])('is accepted: $subject', (good) => {
    expect(faultsOf(good)).toEqual([])
  })

  it.each([
    [commit('Use a connection that is back'), 'verb + object'],
    [commit('fix(core) send a part'), 'verb + object'],
    [commit('wip(core): send a part'), 'verb + object'],
    [commit(`fix(core): send ${'a part '.repeat(10)}`), 'shorten'],
    [commit('fix(core): send vary-miss in every response to one'), '"one"'],
    [commit('docs: mend what an operator could not follow'), '"what"'],
    [commit('fix(redis): use a connection and give back a lease'), '"and"'],
    [commit('fix(redis): try the same server twice'), '"the same"'],
    [commit('refactor(core): open fewer doors'), '"doors"'],
    [commit('fix(core): send a part', { lines: 11 }), 'in a body: 11 lines'],
    [commit('perf(core): send a part faster', { body: 'Faster.' }), 'figure'],
    [commit('merge: send a part'), 'only for a merge'],
    [commit("Merge branch 'a'", { parents: 2 }), 'merge: effect'],
  ])('is refused: %o', (bad, why) => {
    expect(faultsOf(bad).join()).toContain(why)
  })
})

describe('new commits', () => {
  function repository() {
    const folder = mkdtempSync(join(tmpdir(), 'stampede-commits-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const git = (...args: string[]): string =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], {
        ...{ cwd: folder, encoding: 'utf8' },
      }).trim()
    const add = (subject: string, ...bodies: string[]): string => {
      writeFileSync(join(folder, 'file'), `${subject}\n`.repeat(6), { flag: 'a' })
      git('add', 'file')
      git('commit', '-qm', [subject, ...bodies].join('\n\n'))
      return git('rev-parse', 'HEAD')
    }
    git('init', '-q')
    return { folder, git, add }
  }

  it('are those since a commit, with their bodies and changed lines', () => {
    const { folder, add } = repository()
    const since = add('anything')
    add('fix(a): b', 'why', 'more')
    add('fix(a): c')
    const seen = newCommits(folder, since)
    expect(seen.map(({ id: _, ...rest }) => rest)).toEqual([
      { parents: 1, subject: 'fix(a): c', body: '', lines: 6 },
      { parents: 1, subject: 'fix(a): b', body: 'why\n\nmore', lines: 6 },
    ])
  })

  it('end at the last tag', () => {
    const { folder, git, add } = repository()
    const since = add('anything')
    add('released')
    git('tag', 'v1')
    add('fix(a): c')
    expect(newCommits(folder, since).map(({ subject }) => subject)).toEqual(['fix(a): c'])
  })

  it('are none in a clone without the history, and outside of a repository', () => {
    const { folder, add } = repository()
    add('anything')
    expect(newCommits(folder)).toEqual([])
    const empty = mkdtempSync(join(tmpdir(), 'stampede-commits-'))
    onTestFinished(() => rmSync(empty, { recursive: true }))
    expect(newCommits(empty)).toEqual([])
  })
})
