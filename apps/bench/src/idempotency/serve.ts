// The server process of one peer: node serve.js <peer id> <Redis URL>. Tells the test its port, and every run.
import { peers } from './peers.ts'
import { tell } from './runs.ts'

const [, , id, redisUrl = ''] = process.argv
const peer = peers.find((each) => each.id === id)
if (!peer) throw new Error(`no peer named ${id}`)

const { start } = await peer.load()
tell({ type: 'listening', port: await start(redisUrl) })
