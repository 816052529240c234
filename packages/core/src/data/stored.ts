// What callers get of a value of type T: what JSON makes of it, frozen.

/** Dates are strings, members that are undefined are absent, and everything is readonly. What is refused is `never`. */
export type Stored<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null
    ? T
    : T extends Uint8Array
      ? Buffer
      : T extends { toJSON(...args: never[]): infer J }
        ? Stored<J>
        : T extends Refused
          ? never
          : T extends readonly unknown[]
            ? { readonly [K in keyof T]: StoredElement<T[K]> }
            : T extends object
              ? StoredMembers<T>
              : never

type Refused =
  | bigint
  | symbol
  | undefined
  | ((...args: never[]) => unknown)
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>

/** JSON writes null for a member of an array that is undefined. */
type StoredElement<T> = T extends undefined ? null : Stored<T>

type StoredMembers<T> = {
  readonly [K in keyof T as K extends symbol ? never : K]: Stored<Exclude<T[K], undefined>>
}
