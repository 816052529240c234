// Every command that reaches a server, with its sender, by MONITOR. It is exact where statistics
// are not, because Redis marks the commands that a script calls.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { askRedis } from './redis-wire.ts'
import { waitUntil } from './wait-until.ts'

export interface TracedCommand {
  readonly name: string
  readonly from: 'client' | 'script'
  /** `host:port` of the client's end, or `lua` for a script. */
  readonly sender: string
  /** The command as MONITOR writes it, arguments quoted. */
  readonly text: string
}

export interface CommandTrace {
  /** All commands up to this moment, in the server's order. */
  stop(): Promise<readonly TracedCommand[]>
}

/** Starts tracing. Once the promise resolves, no later command is missed. */
export async function traceCommands(address: {
  host: string
  port: number
}): Promise<CommandTrace> {
  const socket = connect(address)
  let received = ''
  socket.setEncoding('utf8')
  socket.on('data', (chunk) => {
    received += chunk
  })
  socket.on('error', () => socket.destroy())
  await once(socket, 'connect')
  socket.write('MONITOR\r\n')
  await waitUntil('MONITOR is accepted', () => received.includes('+OK\r\n'))

  return {
    async stop() {
      // The server writes to its monitors in order. When our marker arrives, all commands before it
      // have arrived.
      const mark = randomUUID()
      await askRedis(address, `ECHO ${mark}`)
      await waitUntil('the end mark of the trace', () => received.includes(mark))
      socket.destroy()
      return received.slice(0, received.indexOf(mark)).split('\r\n').flatMap(parseLine)
    },
  }
}

const SETS_UP_CONNECTION = new Set([
  ...['hello', 'auth', 'select', 'client', 'command', 'info', 'config', 'cluster', 'role'],
  ...['readonly', 'readwrite', 'quit', 'reset', 'echo'],
])

/** The round trips of a trace: commands of clients, without those that open a connection. */
export function sentByClients(trace: readonly TracedCommand[]): TracedCommand[] {
  return trace.filter(({ from, name }) => from === 'client' && !SETS_UP_CONNECTION.has(name))
}

/** They depend on time, and a slow machine sends more of them. */
const HEARTBEAT = new Set(['persist', 'hmget', 'time', 'ping'])

/** Number of round trips during this work, without heartbeats and plain reads. */
export async function countSent(
  redis: { traceCommands(): Promise<CommandTrace> },
  work: () => unknown,
): Promise<number> {
  const trace = await redis.traceCommands()
  await work()
  return sentByClients(await trace.stop()).filter(({ name }) => !HEARTBEAT.has(name)).length
}

function parseLine(line: string): TracedCommand[] {
  const match = /^\+[\d.]+ \[\d+ (\S+)\] ("([^"]+)".*)$/.exec(line)
  if (!match) return []
  const [, sender = '', text = '', name = ''] = match
  return [{ name: name.toLowerCase(), from: sender === 'lua' ? 'script' : 'client', sender, text }]
}
