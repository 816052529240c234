// Faults at a request to PostgreSQL, before the server gets it or before the worker gets its reply.
import type { FleetMember } from '../../harness/fleet.ts'
import { killBackend, type PostgresServer } from '../../harness/postgres.ts'
import type { Fate } from '../../harness/postgres-proxy.ts'

/** A request that a fault strikes, and the processes around it. */
export interface Struck {
  readonly worker: FleetMember
  readonly server: PostgresServer
  /** The server's process of the connection. */
  readonly backend: number
  /** The client of the request goes away. */
  leave(): void
  /** The duplicates of the request have succeeded, on another worker. */
  readonly duplicates: Promise<void>
}

type Act = (struck: Struck) => Fate | Promise<Fate>

export interface Kind {
  readonly name: string
  /** The moment: with the request, or with its reply. */
  readonly at: 'request' | 'reply'
  /** It lasts until the duplicates have succeeded, so that none may go to its worker. */
  readonly holds?: true
  readonly killsWorker?: true
  readonly act: Act
}

async function killWorker({ worker }: Struck): Promise<Fate> {
  await worker.kill()
  return 'drop'
}

async function killPostmaster({ server }: Struck): Promise<Fate> {
  await server.kill()
  return 'forward'
}

/** The server ends the session as an administrator would. */
async function terminate({ server, backend }: Struck): Promise<Fate> {
  await server.query('select pg_terminate_backend($1, 10000)', [backend])
  return 'forward'
}

function killOneBackend({ backend }: Struck): Fate {
  killBackend(backend)
  return 'forward'
}

/** Until the server has ended the transaction for idleness, and a duplicate has succeeded. */
async function delay({ duplicates }: Struck): Promise<Fate> {
  await duplicates
  return 'forward'
}

function freeze({ worker, duplicates }: Struck): Fate {
  worker.pause()
  void duplicates.finally(() => worker.resume())
  return 'forward'
}

function leave({ leave }: Struck): Fate {
  leave()
  return 'forward'
}

const faults: ReadonlyArray<readonly [string, Act, Pick<Kind, 'holds' | 'killsWorker'>?]> = [
  ['the worker is killed', killWorker, { killsWorker: true }],
  ['the connection is cut', () => 'cut'],
  ['the worker loses the connection and the server does not', () => 'part'],
  ['the message is late', delay, { holds: true }],
  ['the worker is frozen', freeze, { holds: true }],
  ['the session is terminated', terminate],
  ["the server's process is killed", killOneBackend],
  ['the postmaster is killed', killPostmaster],
  ['the client leaves', leave],
]

export const KINDS: readonly Kind[] = faults.flatMap(([name, act, flags]) =>
  (['request', 'reply'] as const).map((at) => ({ name: `${name}, ${at}`, at, act, ...flags })),
)
