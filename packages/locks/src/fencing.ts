// Fencing in SQL: the database rejects a write whose fence is smaller than the last fence in the
// row. Only the database can stop an expired holder; the lock cannot.

import { optionError } from '@stampede/core/store'

/** Parts of an UPDATE that compare a row's `last_fence` with the fence of the writer. */
export interface FencedUpdate {
  /** For the assignments: `SET price = $1, <set>`. */
  readonly set: string
  /** For the condition: `WHERE id = $2 AND <where>`. */
  readonly where: string
  /** The value of the placeholder. A string, because some drivers reject a bigint or round it. */
  readonly value: string
}

interface FenceColumn {
  readonly column?: string | undefined
  readonly placeholder?: string | undefined
}

/**
 * SQL for an UPDATE that rejects expired holders: `last_fence = $n` and `last_fence <= $n`. One
 * holder may write twice, so an equal fence passes. If no row was updated, a newer holder has
 * written, and this one must stop.
 *
 * `column` is a bigint column, NOT NULL DEFAULT 0. `placeholder` is `$3` or `?`, as the driver
 * needs it.
 */
export function fencedUpdate(
  fence: bigint,
  { column = 'last_fence', placeholder = '$1' }: FenceColumn = {},
): FencedUpdate {
  if (typeof fence !== 'bigint') {
    throw optionError('fencedUpdate: fence', fence, 'pass the fence of a lease or an attempt')
  }
  if (!/^[A-Za-z_][A-Za-z0-9_.]*$/.test(column)) {
    throw optionError('fencedUpdate.column', column, 'use a plain column name')
  }
  return {
    set: `${column} = ${placeholder}`,
    where: `${column} <= ${placeholder}`,
    value: fence.toString(),
  }
}
