// Results of jobs in PostgreSQL. Each row has a fence, which rejects late writes.

import { fencedUpdate } from '@stampede/locks'

export type Query = <Row>(sql: string, params: readonly unknown[]) => Promise<Row[]>

/** `done` counts accepted results. It must be 1. */
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
  /** Reads a job. In the same statement its row begins to refuse all older fences. */
  begin(job: number, fence: bigint): Promise<'open' | 'done' | 'late'>
  /** Returns false if the row has seen a newer fence. Then nothing is written. */
  finish(job: number, fence: bigint, worker: string): Promise<boolean>
}

/** `fenced: false` shows what happens without the fence. */
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
