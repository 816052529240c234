// A cache for data, or what it is measured against: something that gets the value of a key.

/** The origin, counted. */
export type Load = (key: string) => object

export type Get = (key: string) => Promise<unknown>

export interface DataPeer {
  readonly id: string
  /** Its name in the table. */
  readonly name: string
  /** For its versions. */
  readonly packages: readonly string[]
  readonly workspace?: string
  readonly kind: 'floor' | 'ours' | 'peer'
  readonly create: (load: Load, redisUrl: string) => Get | Promise<Get>
}

export const HOUR_MS = 3_600_000
