// How an app of the demo is started, and how it is closed. `launch` and the fleet share it.

import type { RequestListener } from 'node:http'
import type { EmittedEvent } from './fleet/event-batch.ts'
import type { Settings } from './settings.ts'
import type { Shop } from './shop.ts'

/** Registers a function to call at the end. The last one registered is called first. */
export type OnStop = (close: () => unknown) => void

/** The part of a `Stampede` that the lab uses. */
export interface Watched {
  on(type: '*', listener: (event: EmittedEvent) => void): () => void
  purge(target: { path: string }): Promise<void>
}

export interface Surroundings {
  readonly settings: Settings
  readonly onStop: OnStop
  openShop(): Promise<Shop>
  /** Lets the lab draw the events of this cache. Without a fleet there is no drawing. */
  watch(stampede: Watched): void
}

/** Builds the app, and returns its listener. */
export type Start = (surroundings: Surroundings) => Promise<RequestListener>

/** The process ends by itself when everything is closed. After this time it is ended. */
const LONGEST_STOP_MS = 10_000

/** Closes one after the other. If one fails, the others are still closed. */
export async function closeAll(
  closers: ReadonlyArray<() => unknown>,
  longestMs: number = LONGEST_STOP_MS,
): Promise<void> {
  setTimeout(() => process.exit(process.exitCode ?? 0), longestMs).unref()
  for (const close of closers) {
    try {
      await close()
    } catch (error) {
      console.error(`While stopping: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}
