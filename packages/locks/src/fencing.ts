// Fencing where the data lives: SQL parts by which a store refuses a write with an older fence than
// it has seen. This is what makes a late holder harmless. No lock can.

import { optionError } from '@stampede/core/store'

/** What guards a row: the greatest fence that has written it. */
export interface FencedUpdate {
  /** Put behind the assignments of an UPDATE: `SET price = $1, <set>`. */
  readonly set: string
  /** Put into the WHERE of the UPDATE: `WHERE id = $2 AND <where>`. */
  readonly where: string
  /** The value of the placeholder: a string, since a bigint may be beyond what a driver takes for a number. */
  readonly value: string
}

/**
 * The two parts of an SQL UPDATE that a late holder cannot pass: `last_fence = $n` and `last_fence <= $n`. Equal is
 * allowed, so that one holder may write twice. No row updated means: you are late, stop.
 *
 * `column` is a bigint column, NOT NULL DEFAULT 0; `placeholder` is the parameter's place, `$3` or `?`.
 */
export function fencedUpdate(
  fence: bigint,
  { column = 'last_fence', placeholder = '$1' }: { column?: string; placeholder?: string } = {},
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
