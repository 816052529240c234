// Starts the server of a row in a process of its own, and reads its CPU time and origin calls.
import { startChild } from '../lib/child.ts'
import type { Usage } from './serve.ts'

export interface Server extends AsyncDisposable {
  readonly port: number
  /** False: the CPU time of the server is not known. */
  readonly isNode: boolean
  usage(): Promise<Usage>
}

export async function startNode(module: string, redisUrl = ''): Promise<Server> {
  const child = await startChild('hit/serve.js', [module, redisUrl])
  return {
    port: await child.ask<number>('port'),
    isNode: true,
    usage: () => child.ask<Usage>('usage'),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}
