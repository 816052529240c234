// Server process of one library.
import { openGate } from './orders.ts'
import { peers } from './peers.ts'

export async function start(id: string, redisUrl: string) {
  const begin = await peers.find((each) => each.id === id)?.load()
  if (begin === undefined) throw new Error(`no peer named ${id}`)
  const port = await begin(redisUrl)
  return { port: () => port, go: openGate }
}
