// Readers of JSON whose origin is not trusted: a value of another type becomes its default.

/** Reads a value of any type as a `T`. */
export type Shape<T> = (value: unknown) => T

export type ShapeOf<S> = S extends Shape<infer T> ? T : never

export const num: Shape<number> = (value) =>
  typeof value === 'number' && Number.isFinite(value) ? value : 0

export const maybeNum: Shape<number | undefined> = (value) =>
  value === undefined || value === null ? undefined : num(value)

export const bool: Shape<boolean> = (value) => value === true

export const text =
  (most: number): Shape<string> =>
  (value) =>
    typeof value === 'string' ? value.slice(0, most) : ''

export const list =
  <T>(item: Shape<T>, most: number): Shape<readonly T[]> =>
  (value) =>
    Array.isArray(value) ? value.slice(0, most).map(item) : []

/** An object with any names. Without a prototype, so that no name has a meaning. */
export const record =
  <T>(item: Shape<T>, most: number): Shape<Readonly<Record<string, T>>> =>
  (value) => {
    const read: Record<string, T> = Object.create(null)
    for (const [name, each] of entriesOf(value).slice(0, most))
      read[name.slice(0, 300)] = item(each)
    return read
  }

export const object =
  <S extends Readonly<Record<string, Shape<unknown>>>>(
    shapes: S,
  ): Shape<{ readonly [Name in keyof S]: ShapeOf<S[Name]> }> =>
  (value) => {
    const given: Readonly<Record<string, unknown>> = Object.fromEntries(entriesOf(value))
    const read = Object.entries(shapes).map(([name, shape]) => [name, shape(given[name])])
    return Object.fromEntries(read) as { readonly [Name in keyof S]: ShapeOf<S[Name]> }
  }

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : []
}
