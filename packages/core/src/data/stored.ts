// `Stored<T>`: the type in which callers get a value of type T, after JSON.

/**
 * The type of a value after JSON. A Date is a string, and everything is readonly. A type for which
 * getOrSet throws becomes `never`.
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

/** An element of an array. JSON writes `undefined` as null there. */
type StoredElement<T> = T extends undefined ? null : StoredMember<T>

/**
 * A member of an object or array. Bytes may be a whole value, but not a member: the type becomes
 * `never`.
 */
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

/** The members of an object. A member that may be undefined becomes optional. */
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
