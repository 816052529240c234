// `stampede purge`: purges keys, paths, routes or tags, a cache or everything, in the whole fleet.

import type { PurgeTarget } from '@stampede/core'
import { type Command, flag, type Invocation, list, text } from '../command.ts'
import { countEntries, type DryRun } from '../dry-run.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { openFleet, shownUrl, wholePrefix } from '../fleet.ts'
import { count, printable } from '../format.ts'

const KINDS = ['key', 'path', 'route', 'tag'] as const
const REPEATS = 'may be repeated'

export const purge: Command = {
  summary: 'Purges entries in all processes of the fleet.',
  usage:
    'stampede purge --key KEY… | --path PATH… | --route PATTERN… | --tag TAG… | --cache NAME | --all [options]',
  options: [
    ['--key KEY', 'a key of getOrSet, or a result of the option key of stampedeCache', REPEATS],
    ['--path PATH', 'a path with all queries and variants', REPEATS],
    ['--host HOST', 'with --path: on that host only'],
    ['--route PATTERN', 'all paths of a pattern such as /products/:id', REPEATS],
    ['--tag TAG', 'all entries with a tag', REPEATS],
    ['--cache NAME', 'all values of stampede.cache(NAME)'],
    ['--all', 'all entries; asks first, or needs --yes'],
    ['--soft', 'make the entries stale instead of dropping them'],
    ['--dry-run', 'purge nothing; count the entries in Redis that the purge would cover'],
    ['--yes', 'do not ask'],
  ],
  run,
}

async function run(invocation: Invocation): Promise<ExitCode> {
  const { values, names, settings, terminal } = invocation
  if (names.length > 0)
    throw new UsageError(`received ${names[0]}; name the target: --key, --path, …`)
  const target = readTarget(invocation)
  const isDry = flag(values, 'dry-run')
  if ('all' in target && !flag(values, 'yes') && !isDry) {
    const question = `Purge all entries of prefix ${wholePrefix(settings)} on ${shownUrl(settings)}?`
    if (!terminal.isInteractive) throw new UsageError('--all needs --yes without a terminal')
    if (!(await terminal.confirm(question))) {
      terminal.print({ purged: false }, () => ['Nothing was purged.'])
      return EXIT.found
    }
  }
  const soft = flag(values, 'soft')
  await using fleet = await openFleet(settings)
  const dry = isDry ? await countEntries(fleet, target, soft, terminal) : undefined
  if (!isDry) await fleet.stampede.purge(target, { soft })
  const done = `${'keys' in target ? 'are' : 'is'} ${soft ? 'stale' : 'purged'}`
  terminal.print({ purged: !isDry, target, soft, ...dry }, () => [
    dry === undefined
      ? printable(`${shownTarget(target)} ${done}.`)
      : printable(`${shownTarget(target)}: ${shownCount(dry, soft)}`),
  ])
  return EXIT.ok
}

function readTarget({ values }: Invocation): PurgeTarget {
  const named = KINDS.filter((kind) => list(values, kind).length > 0)
  const all = flag(values, 'all')
  const cache = text(values, 'cache')
  if (named.length + Number(all) + Number(cache !== undefined) !== 1) {
    throw new UsageError('name exactly one of --key, --path, --route, --tag, --cache and --all')
  }
  const host = text(values, 'host')
  if (host !== undefined && named[0] !== 'path') throw new UsageError('--host needs --path')
  const [kind] = named
  if (cache !== undefined) return { cache }
  if (kind === undefined) return { all: true }
  const items = list(values, kind)
  const target = items.length === 1 ? { [kind]: items[0] } : { [`${kind}s`]: items }
  return { ...target, ...(host !== undefined && { host }) } as PurgeTarget
}

function shownCount({ entries, unreadable }: DryRun, soft: boolean): string {
  const would = `${count(entries, 'entry')} would ${soft ? 'become stale' : 'be purged'}.`
  const unknown = `${count(unreadable, 'entry')} of another version cannot be read.`
  return `${would} Nothing was purged.${unreadable > 0 ? ` ${unknown}` : ''}`
}

function shownTarget(target: PurgeTarget): string {
  if ('all' in target) return 'Every entry'
  const { host, ...named } = target
  const [[kind = '', names] = []] = Object.entries(named)
  const shown = `${kind} ${[names].flat().join(', ')}${host === undefined ? '' : ` on ${host}`}`
  return kind.startsWith('key') ? `The ${shown}` : `Each entry of the ${shown}`
}
