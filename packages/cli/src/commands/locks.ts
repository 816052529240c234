// `stampede locks`: the locks that are held, with holder, age, rest of the lease, and queue.

import type { StoreOperator } from '@stampede/core/store'
import type { Command, Invocation } from '../command.ts'
import { EXIT, type ExitCode } from '../errors.ts'
import { openFleet } from '../fleet.ts'
import { type Columns, duration, table } from '../format.ts'
import { readAll } from '../scan.ts'

type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>

export const locks: Command = {
  summary: 'Lists the locks that are held or waited for. With names: these locks only.',
  usage: 'stampede locks [NAME ...] [options]',
  options: [],
  run,
}

async function run({ names, settings, terminal }: Invocation): Promise<ExitCode> {
  await using fleet = await openFleet(settings)
  const read = (key: string) => fleet.store.operator.inspectLock(key)
  const all =
    names.length > 0
      ? (await Promise.all(names.map(read))).filter((lock) => lock !== undefined)
      : await readAll(fleet, 'lock', terminal, read)
  const held = all.sort((a, b) => (b.heldForMs ?? 0) - (a.heldForMs ?? 0))
  const none = `No lock is held. Compare \`--prefix\` (now ${settings.prefix}) with that of redisStore.`
  terminal.print({ locks: held }, () => (held.length === 0 ? [none] : table(held, COLUMNS)))
  return names.length > 0 && held.length === 0 ? EXIT.found : EXIT.ok
}

const COLUMNS: Columns<LockInfo> = {
  LOCK: ({ key }) => key,
  HOLDER: ({ token, remainingMs }) => (remainingMs > 0 ? `${token}…` : '(lease ended)'),
  'HELD FOR': ({ heldForMs }) => (heldForMs === undefined ? '-' : duration(heldForMs)),
  'LEASE LEFT': ({ remainingMs }) => duration(remainingMs),
  QUEUE: ({ queue }) => String(queue),
  FENCE: ({ fence }) => fence,
}
