// A data cache, or a floor that it is compared with: a function that returns the value of a key.

/** The origin. The caller counts its calls. */
export type Load = (key: string) => object

export type Get = (key: string) => Promise<unknown>

export interface DataPeer {
  readonly id: string
  /** Its name in the table. */
  readonly name: string
  /** Packages whose versions the page names. */
  readonly packages: readonly string[]
  readonly workspace?: string
  readonly kind: 'floor' | 'ours' | 'peer'
  readonly create: (load: Load, redisUrl: string) => Get | Promise<Get>
}

export const HOUR_MS = 3_600_000
