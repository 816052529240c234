// Compares a function with a library on random input. A rule must explain each difference.

import { isDeepStrictEqual } from 'node:util'

/** An intended difference. */
export interface Difference<Input> {
  /** The rule of the RFC, with its section. */
  readonly name: string
  /** Input on which the results differ, for this reason only. */
  readonly example: Input
  /** Looks only at the input, so it cannot excuse a wrong result of other input. */
  applies(input: Input): boolean
}

export interface Comparison<Input> {
  readonly inputs: readonly Input[]
  ours(input: Input): unknown
  theirs(input: Input): unknown
  readonly differences: ReadonlyArray<Difference<Input>>
}

export interface Compared {
  /** Differences that no rule explains, as text. At most 10. */
  readonly unexplained: readonly string[]
  /** Rules whose example has equal results, or another reason as well. */
  readonly unproven: readonly string[]
  /** Number of inputs with equal results, by the result as JSON. */
  readonly agreed: ReadonlyMap<string, number>
}

export function compare<Input>({ inputs, ours, theirs, differences }: Comparison<Input>): Compared {
  const reasonsFor = (input: Input): string[] =>
    differences.filter((difference) => difference.applies(input)).map(({ name }) => name)
  const unproven = differences.filter(({ name, example }) => {
    const differs = !isDeepStrictEqual(ours(example), theirs(example))
    return !differs || !isDeepStrictEqual(reasonsFor(example), [name])
  })
  const unexplained: string[] = []
  const agreed = new Map<string, number>()
  for (const input of inputs) {
    const [our, their] = [ours(input), theirs(input)]
    if (isDeepStrictEqual(our, their)) {
      const result = JSON.stringify(our) ?? 'undefined'
      agreed.set(result, (agreed.get(result) ?? 0) + 1)
    } else if (unexplained.length < 10 && reasonsFor(input).length === 0) {
      unexplained.push(JSON.stringify({ input, ours: our, theirs: their }))
    }
  }
  return { unexplained, unproven: unproven.map(({ name }) => name), agreed }
}
