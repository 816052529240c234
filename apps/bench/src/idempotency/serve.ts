// Server process of one library, reports port and runs. Usage: node serve.js <peer id> <Redis URL>.
import { peers } from './peers.ts'
import { sendToTest } from './runs.ts'

const [, , id, redisUrl = ''] = process.argv
const peer = peers.find((each) => each.id === id)
if (!peer) throw new Error(`no peer named ${id}`)

const { start } = await peer.load()
sendToTest({ type: 'listening', port: await start(redisUrl) })
