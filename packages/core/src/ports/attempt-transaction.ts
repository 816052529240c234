// The type of `attempt.tx`. The package of a store adds its members by declaration merging.

/**
 * What a handler writes with, if its option `transaction` has no runner. `@stampede/postgres` adds
 * the `query` of pg.
 */
// biome-ignore lint/suspicious/noEmptyInterface: the package of a store adds the members.
export interface AttemptTransaction {}
