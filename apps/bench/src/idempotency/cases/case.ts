// One adversarial case, and what many of them ask: was the retry answered with the first answer, without a run?
import type { Answer } from '../request.ts'
import type { Scene } from '../scene.ts'
import { inWords, unless, type Verdict, wrong } from '../verdict.ts'

export interface Case {
  readonly id: string
  /** What a peer must do to get an ok, as a row of the table says it. */
  readonly title: string
  /** Default 20 000. */
  readonly timeoutMs?: number
  readonly run: (scene: Scene) => Promise<Verdict>
}

export interface Expected {
  readonly status: number
  readonly body?: Buffer
  /** Fields that the retry must carry as the first answer did. */
  readonly headers?: readonly string[]
}

export async function judgeReplay(
  scene: Scene,
  first: Answer,
  again: Answer,
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

/** Empty if `again` is the same answer. */
export function differenceOf(first: Answer, again: Answer, headers: readonly string[]): string {
  if (again.status !== first.status) return `retry got ${inWords(again)}`
  const lost = headers.filter((name) => again.headers[name] !== first.headers[name])
  const facts = lost.map((name) => `${name} ${again.headers[name] ? 'changed' : 'lost'}`)
  if (!again.body.equals(first.body)) facts.unshift('another body')
  return facts.length === 0 ? '' : `replayed with ${facts.join(', ')}`
}
