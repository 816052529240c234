// Options of a guarded Redis client: commands time out, and are not queued or retried for long.
import { COMMAND_MS, type Settings } from '../peer.ts'

export const ioredisOptions = ({ client }: Pick<Settings, 'client'>) =>
  client === 'guarded' ? { commandTimeout: COMMAND_MS, maxRetriesPerRequest: 1 } : {}

/** Its command timeout ends when the command is written, so the socket needs a timeout as well. */
export const nodeRedisOptions = ({ client, redisUrl: url }: Settings) =>
  client === 'guarded'
    ? {
        url,
        disableOfflineQueue: true,
        commandOptions: { timeout: COMMAND_MS },
        socket: { socketTimeout: COMMAND_MS },
        pingInterval: 200,
      }
    : { url }

export function addressOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}

/** Adds a listener for connection errors, as every client's documentation requires. */
export function listened<T>(client: T): T {
  const emitter = client as { on(event: 'error', listener: () => void): unknown }
  emitter.on('error', () => {})
  return client
}
