// The type of a value as callers get it: after JSON, and frozen.

/**
 * The type of a value of type `T` after JSON. Dates are strings, members that are undefined are
 * absent, and all members are readonly. A refused type is `never`.
 */
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

/** JSON writes `null` for an array element that is `undefined`. */
type StoredElement<T> = T extends undefined ? null : StoredMember<T>

/** Bytes are allowed only as the whole value. As a member, a Buffer has its toJSON() form. */
type StoredMember<T> = unknown extends T
  ? T
  : T extends Buffer
    ? StoredBuffer
    : T extends Uint8Array
      ? never
      : Stored<T>

/** The result of `toJSON()` of a Buffer. */
interface StoredBuffer {
  readonly type: 'Buffer'
  readonly data: readonly number[]
}

/** A member that may be `undefined` is optional, because JSON leaves it out then. */
type StoredMembers<T> = Flat<
  {
    readonly [K in keyof T as MayBeAbsent<T, K> extends true ? never : Named<K>]: StoredMember<T[K]>
  } & {
    readonly [K in keyof T as MayBeAbsent<T, K> extends true ? Named<K> : never]?: StoredMember<
      Exclude<T[K], undefined>
    >
  }
>

type Named<K> = K extends symbol ? never : K
type MayBeAbsent<T, K extends keyof T> = unknown extends T[K]
  ? false
  : undefined extends T[K]
    ? true
    : false
type Flat<T> = { [K in keyof T]: T[K] }
