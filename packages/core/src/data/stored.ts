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
type StoredElement<T> = T extends undefined ? null : StoredMember<T>

/** Bytes are kept as bytes only where they are the whole value. */
type StoredMember<T> = unknown extends T
  ? T
  : T extends Buffer
    ? StoredBuffer
    : T extends Uint8Array
      ? never
      : Stored<T>

/** What `toJSON()` of a Buffer returns. */
interface StoredBuffer {
  readonly type: 'Buffer'
  readonly data: readonly number[]
}

/** A member that may be undefined may be absent. */
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
