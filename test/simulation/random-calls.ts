// Keys and arguments of random calls, for each script of lua/. They fit the scripts only roughly,
// because a wrong or missing argument must have the same effect on both servers, too.

import type { Random } from '../fuzz/leaks/random.ts'
import { SOURCES } from './link.ts'

export interface Scene {
  now(): number
  /** A fence or an ID that an earlier reply about this key had. */
  known(key: string): string
}

type Drawn = readonly [keys: readonly string[], args: readonly string[]]

export const NAMES = [...SOURCES.keys(), 'lookup-or-lease', 'lookup-or-lease', 'commit', 'commit']
const TOKENS = ['t1', 't1', 't1', 't2']
const FRAMES = ['frame', '\0\xff\n', '', 'x'.repeat(100), 'x'.repeat(20_000)]
const PURGES = ['{p}m', '{p}l', '{p}z']

function cached(random: Random): string[] {
  const group = random.pick(['{a}', '{a}', '{b}'])
  const key = random.pick([group, `${group}:v1`])
  return key === group ? [key] : [key, group]
}

const late = (random: Random, { now }: Scene): string =>
  random.chance(0.1) ? String(now() + random.pick([-500, 500])) : '0'

const one = (random: Random, ...names: string[]): string[] => [random.pick(names)]

/** Keys and arguments of one call. */
export const CALLS: Readonly<Record<string, (random: Random, scene: Scene) => Drawn>> = {
  'lookup-or-lease'(random, scene) {
    const keys = cached(random)
    const fence = () => random.pick(['', scene.known(keys[0] ?? '')])
    const rest = [fence(), fence(), random.pick(['0', '1']), random.pick(['', 'd1'])]
    const lease = random.pick(['5000', '5000', '100', '0'])
    const args = [random.pick(TOKENS), lease, '60000', random.pick(['p1', 'p2', 'p3'])]
    return [keys, [...args, random.pick(['0', '1']), ...(random.chance(0.5) ? rest : [])]]
  },
  commit(random, scene) {
    const keys = cached(random)
    const grant = [scene.known(keys[0] ?? ''), late(random, scene)]
    const lives = ['70000', random.pick(['100', '5000']), random.pick(['0 0 0', '5000 9000 60000'])]
    const waited = random.pick(['0', '0', '40'])
    const terms = [...grant, waited, ...lives, random.pick(TOKENS)].join(' ')
    return [keys, [terms, random.pick(FRAMES), keys[0] ?? '', 'w:']]
  },
  'end-lease'(random, scene) {
    const [key = ''] = cached(random)
    const fence = random.pick([scene.known(key), scene.known(key), '*'])
    const ends = random.pick([
      ['0', '0'],
      ['3000', '0'],
      ['0', '3000'],
    ])
    const failure = random.pick(['{"message":"x"}', '{"like":"d1"}'])
    return [
      [key],
      [random.pick(TOKENS), fence, ...ends, failure, key, 'w:', random.pick(['0', '1'])],
    ]
  },
  'renew-entry'(random, scene) {
    const keys = cached(random)
    return [keys, [random.pick(TOKENS), scene.known(keys[0] ?? ''), '5000', '60000']]
  },
  renew(random, scene) {
    const keys = random.pick([one(random, 'l1', 'l2'), one(random, 'i1', 'i2')])
    return [keys, [random.pick(TOKENS), scene.known(keys[0] ?? ''), '5000', '60000']]
  },
  purge: (random) => [one(random, '{a}', '{b}'), [random.pick(['0', '1', '1']), 'k', 'w:']],
  'append-purge'(random, scene) {
    const one = () => random.pick(['mht:news', 'mst:news', 'mha', `mht:${random.int(9)}`, 'khd:=k'])
    const events = random.pick([[one()], [one(), one()]])
    const bounds = ['10000', random.pick(['100000', '3']), String(random.int(1e6))]
    const known = random.pick([scene.known('{p}m'), '0-0'])
    return [PURGES, [known, 'log', ...bounds, ...events]]
  },
  'read-purges'(random, scene) {
    const known = random.pick([scene.known('{p}m'), scene.known('{p}m'), '0-0'])
    const most = [random.pick(['2', '1000']), random.pick(['10', '262144'])]
    return [PURGES, [known, '', ...most, String(random.int(1e6))]]
  },
  'acquire-lock'(random) {
    const process = random.pick(['', 'p1', 'p2', 'p3'])
    const args = [random.pick(TOKENS), random.pick(['100', '5000']), process, '60000']
    return [one(random, 'l1', 'l2'), args]
  },
  'release-lock'(random, scene) {
    const [key = ''] = one(random, 'l1', 'l2')
    const fence = random.pick([scene.known(key), '*', '*'])
    const next = random.pick([
      ['', '', '0'],
      ['p1', 't3', '5000'],
    ])
    const how = [random.pick(['0', '1']), key, 'g:', '2000', random.pick(['0', '1'])]
    return [[key], [random.pick([...TOKENS, '']), fence, ...how, ...next, '60000']]
  },
  'leave-queue': (random) => [one(random, 'l1', 'l2'), one(random, 'p1', 'p2', 'p3')],
  'begin-record'(random) {
    const prints = [random.pick(['e1', 'e1', 'e2']), random.pick(['c1', 'c1', 'c2'])]
    const times = [random.pick(['100', '5000']), '60000']
    const rest = [random.pick(['1', '2', '5']), '60000', random.pick(['', 'p1'])]
    return [one(random, 'i1', 'i2'), [random.pick(TOKENS), ...prints, ...times, ...rest]]
  },
  'finish-record'(random, scene) {
    const [key = ''] = one(random, 'i1', 'i2')
    const fence = random.pick([scene.known(key), scene.known(key), '*'])
    const as = random.pick(['completed', 'released', 'uncertain'])
    const rest = ['5000', random.pick(FRAMES), 'e1', 'c1', key, 'w:']
    return [[key], [random.pick(TOKENS), fence, as, ...rest]]
  },
  'keep-step'(random, scene) {
    const [key = ''] = one(random, 'i1', 'i2')
    return [[key], [random.pick(TOKENS), scene.known(key), 'step', '\0value', '60000']]
  },
  'settle-record'(random) {
    const [key = ''] = one(random, 'i1', 'i2')
    const as = random.pick(['completed', 'released'])
    const how = ['60000', 'frame', random.pick(['0', '0', '1']), key, 'w:', 'settled']
    return [[key], [as, ...how]]
  },
  'inspect-entry': (random) => [cached(random), []],
  'inspect-lock': (random) => [one(random, 'l1', 'l2'), []],
  'inspect-record': (random) => [one(random, 'i1', 'i2'), []],
  'report-process': (random) => [
    ['{r}e', '{r}t'],
    [random.pick(['p1', 'p2', 'p3']), 'text', random.pick(['500', '30000']), '60000'],
  ],
  'read-reports': (random) => [
    ['{r}e', '{r}t'],
    [random.pick(['1', '10']), random.pick(['5', '1000'])],
  ],
}
