// The jobs' results in PostgreSQL, guarded by the fence. The lock says who should write; this table says who may.

import { fencedUpdate } from '@stampede/locks'

export type Query = <Row>(sql: string, params: readonly unknown[]) => Promise<Row[]>

/** `done` counts accepted results: 1 is what everything here is for. */
export const SCHEMA = `
  create table jobs (
    id         integer primary key,
    last_fence bigint  not null default 0,
    done       integer not null default 0,
    done_by    text
  )
`

export interface Row {
  readonly id: number
  readonly done: number
  readonly doneBy: string | null
  readonly fence: string
}

export interface Jobs {
  /** Reads a job and, in the same statement, makes its row refuse every older fence from now on. */
  begin(job: number, fence: bigint): Promise<'open' | 'done' | 'late'>
  /** False: no row was changed, since a newer fence has been there. */
  finish(job: number, fence: bigint, worker: string): Promise<boolean>
}

/** `fenced: false` is for seeing what happens without. */
export function createJobs(query: Query, { fenced }: { fenced: boolean }): Jobs {
  return {
    async begin(job, fence) {
      const { set, where, value } = guard(fence, '$2', fenced)
      const [row] = await query<{ done: number }>(
        `update jobs set ${set} where id = $1 and ${where} returning done`,
        [job, value],
      )
      if (row === undefined) return 'late'
      return row.done > 0 ? 'done' : 'open'
    },
    async finish(job, fence, worker) {
      const { set, where, value } = guard(fence, '$2', fenced)
      const rows = await query(
        `update jobs set done = done + 1, done_by = $3, ${set} where id = $1 and ${where} returning id`,
        [job, value, worker],
      )
      return rows.length === 1
    },
  }
}

export function addJobs(query: Query, ids: readonly number[]): Promise<unknown> {
  return query('insert into jobs (id) select unnest($1::integer[])', [ids])
}

export function readJobs(query: Query): Promise<Row[]> {
  const columns = `id, done, done_by as "doneBy", last_fence::text as fence`
  return query<Row>(`select ${columns} from jobs order by id`, [])
}

function guard(fence: bigint, placeholder: string, fenced: boolean) {
  const guarded = fencedUpdate(fence, { placeholder })
  return fenced ? guarded : { ...guarded, where: `${placeholder}::bigint is not null` }
}
