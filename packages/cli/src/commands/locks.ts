// `stampede locks`: the locks that are held, with holder, age, rest of the lease, and queue.

import type { StoreOperator } from '@stampede/core/store'
import type { Command, Invocation } from '../command.ts'
import { EXIT, type ExitCode } from '../errors.ts'
import { openFleet } from '../fleet.ts'
import { duration, table } from '../format.ts'
import { readAll } from '../scan.ts'

type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>

export const locks: Command = {
  summary: 'Lists the locks that are held or waited for. With names: these locks only.',
  usage: 'stampede locks [NAME ...] [options]',
  options: [],
  run,
}

async function run({ names, settings, terminal }: Invocation): Promise<ExitCode> {
  const fleet = await openFleet(settings)
  try {
    const read = (key: string) => fleet.store.operator.inspectLock(key)
    const all =
      names.length > 0
        ? (await Promise.all(names.map(read))).filter((lock) => lock !== undefined)
        : await readAll(fleet, 'lock', terminal, read)
    const held = all.sort((a, b) => (b.heldForMs ?? 0) - (a.heldForMs ?? 0))
    const none = `No lock is held. Compare \`--prefix\` (now ${settings.prefix}) with that of redisStore.`
    terminal.print({ locks: held }, () => (held.length === 0 ? [none] : rowsOf(held)))
    return names.length > 0 && held.length === 0 ? EXIT.found : EXIT.ok
  } finally {
    await fleet.close()
  }
}

function rowsOf(held: readonly LockInfo[]): string[] {
  return table(
    ['LOCK', 'HOLDER', 'HELD FOR', 'LEASE LEFT', 'QUEUE', 'FENCE'],
    held.map(({ key, token, heldForMs, remainingMs, queue, fence }) => [
      key,
      remainingMs > 0 ? `${token}…` : '(lease ended)',
      heldForMs === undefined ? '-' : duration(heldForMs),
      duration(remainingMs),
      String(queue),
      fence,
    ]),
  )
}
