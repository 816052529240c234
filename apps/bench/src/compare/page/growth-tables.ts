// Tables of the section "Growth", in Markdown.

import type { KeysSeen } from '../growth/keys-member.ts'
import type { CrowdRow } from '../growth/run-crowds.ts'
import type { FleetRow, WaitersRow } from '../growth/run-growth.ts'
import { table, whole } from '../lib/markdown.ts'

const NAMES: Readonly<Record<string, string>> = {
  stampede: 'Stampede',
  express: 'Express alone, one handler run per request',
}
const nameOf = (id: string): string => NAMES[id] ?? id

export const keysTable = (rows: readonly KeysSeen[]): string =>
  table(
    [
      'keys',
      'bytes per value',
      'memory per entry',
      'as counted by L1',
      'µs a fill',
      'ns a hit',
      'ns a hit, lru-cache',
    ],
    rows.map((row) => [
      whole(row.keys),
      String(row.storedBytes),
      // With a hundred entries, the noise of the heap is larger than the entries.
      row.keys < 1_000 ? '–' : whole(row.memoryBytes),
      whole(row.countedBytes),
      row.fillMicros.toFixed(1),
      whole(row.hitNanos),
      whole(row.lruNanos),
    ]),
  )

export const fleetTable = (rows: readonly FleetRow[]): string =>
  table(
    ['cache', 'processes', 'origin calls', 'slowest caller after the origin, ms'],
    rows.map(({ peer, processes, originCalls, overheadMs }) => [
      nameOf(peer),
      String(processes),
      String(originCalls),
      overheadMs.toFixed(1),
    ]),
  )

export const waitersTable = (rows: readonly WaitersRow[]): string =>
  table(
    [
      'cache',
      'callers',
      'origin calls',
      'last value after the origin, ms',
      'event loop blocked, ms',
    ],
    rows.map(({ peer, waiters, originCalls, settledMs, blockedMs }) => [
      nameOf(peer),
      whole(waiters),
      String(originCalls),
      settledMs.toFixed(1),
      blockedMs.toFixed(1),
    ]),
  )

export const crowdTable = (rows: readonly CrowdRow[]): string =>
  table(
    [
      'server',
      'clients',
      'origin calls',
      'last response after the origin, ms',
      'event loop blocked, ms',
    ],
    rows.map(({ subject, clients, originCalls, respondedMs, blockedMs }) => [
      nameOf(subject),
      String(clients),
      String(originCalls),
      whole(respondedMs),
      blockedMs.toFixed(1),
    ]),
  )
