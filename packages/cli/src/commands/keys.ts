// `stampede keys`: the names under which something is stored.

import { shownKey } from '@stampede/core/operator'
import { groupOf } from '@stampede/core/store'
import { type Command, type Invocation, text } from '../command.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { openFleet } from '../fleet.ts'
import { count, table } from '../format.ts'
import { matchesGlob } from '../glob.ts'
import { readAll } from '../scan.ts'

export const keys: Command = {
  summary: 'Lists stored keys. PATTERN is a part with * for any text, such as */products*.',
  usage: 'stampede keys [PATTERN] [options]',
  options: [['--limit N', 'how many keys to list; default 100']],
  run,
}

const MOST_LIMIT = 100_000

async function run({ names, values, settings, terminal }: Invocation): Promise<ExitCode> {
  const [pattern = '*', ...more] = names
  if (more.length > 0) throw new UsageError('name one PATTERN, in quotation marks')
  const limit = Number(text(values, 'limit') ?? 100)
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_LIMIT)
    throw new UsageError(`--limit: received ${values.limit}; use 1 to ${MOST_LIMIT}`)
  await using fleet = await openFleet(settings)
  const found = new Map<string, number>()
  let hashed = 0
  await readAll(fleet, 'cache', terminal, async (key) => {
    if (key.startsWith('#')) hashed += 1
    else if (isMatch(pattern, key)) {
      const name = shownKey(key)
      found.set(name, (found.get(name) ?? 0) + Number(groupOf(key) !== key))
    }
  })
  const rows = [...found].sort(([a], [b]) => (a < b ? -1 : 1))
  const shown = rows.slice(0, limit).map(([key, variants]) => ({ key, variants }))
  const notes = notesOn(rows.length - shown.length, hashed)
  terminal.print({ keys: shown, more: rows.length - shown.length, hashed }, () => [
    ...(shown.length === 0
      ? [`No key matches. Compare \`--prefix\` (now ${settings.prefix}) with that of redisStore.`]
      : table(shown, { KEY: ({ key }) => key, VARIANTS: ({ variants }) => String(variants) })),
    ...notes,
  ])
  return EXIT.ok
}

/** A URL matches with and without its method. */
function isMatch(pattern: string, key: string): boolean {
  const name = shownKey(key)
  return matchesGlob(pattern, name) || matchesGlob(pattern, name.replace(/^(GET|QUERY) /, ''))
}

function notesOn(more: number, hashed: number): string[] {
  const notes = []
  if (more > 0) notes.push(`${count(more, 'more key')} matched. Raise --limit to list them.`)
  if (hashed > 0)
    notes.push(
      `${count(hashed, 'long key')} left out: Redis has only hashes of them. To find one, give the whole key to get.`,
    )
  return notes
}
