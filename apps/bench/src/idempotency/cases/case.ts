// Type of a case, and the check that many cases share: the retry gets the first response without a
// run.

import { unless, type Verdict, wrong } from '../../verdicts/verdict.ts'
import type { ClientResponse } from '../request.ts'
import type { Scene } from '../scene.ts'
import { inWords } from '../words.ts'

export interface Case {
  readonly id: string
  /** The row of the table: what a library must do to be ok. */
  readonly title: string
  /** Default 20 000. */
  readonly timeoutMs?: number
  readonly run: (scene: Scene) => Promise<Verdict>
}

export interface Expected {
  readonly status: number
  readonly body?: Buffer
  /** Fields that must be equal in both responses. */
  readonly headers?: readonly string[]
}

export async function judgeReplay(
  scene: Scene,
  first: ClientResponse,
  again: ClientResponse,
  expected: Expected,
): Promise<Verdict> {
  if (first.status !== expected.status) return wrong(`first response: ${inWords(first)}`)
  if (expected.body && !first.body.equals(expected.body))
    return wrong('first response: altered bytes')
  const runs = (await scene.runs()).length
  const difference = differenceOf(first, again, expected.headers ?? ['content-type'])
  return unless([
    [runs !== 1, 'ran again'],
    [runs === 1 && difference !== '', difference],
  ])
}

/** Returns an empty text if both responses are equal. */
export function differenceOf(
  first: ClientResponse,
  again: ClientResponse,
  headers: readonly string[],
): string {
  if (again.status !== first.status) return `retry got ${inWords(again)}`
  const lost = headers.filter((name) => again.headers[name] !== first.headers[name])
  const facts = lost.map((name) => `${name} ${again.headers[name] ? 'changed' : 'lost'}`)
  if (!again.body.equals(first.body)) facts.unshift('another body')
  return facts.length === 0 ? '' : `replayed with ${facts.join(', ')}`
}
