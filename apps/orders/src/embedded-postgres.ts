// PostgreSQL inside this process (PGlite), for clients that connect by TCP. PGlite has one session,
// so a connection has it alone from its first message until it is idle and outside a transaction.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { PGlite } from '@electric-sql/pglite'

const CANCEL = 80_877_102
const SSL = 80_877_103
const GSS = 80_877_104

export interface EmbeddedPostgres {
  readonly url: string
  stop(): Promise<void>
}

/** Starts an empty database in memory, on a free port. */
export async function startEmbeddedPostgres(): Promise<EmbeddedPostgres> {
  const session = new Session(await PGlite.create())
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    // A killed client resets its connection.
    socket.on('error', () => {})
    serve(socket, session).catch(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
      await session.close()
    },
  }
}

/** The one session, which its connections use in turn. */
class Session {
  readonly #db: PGlite
  #turn: Promise<void> = Promise.resolve()

  constructor(db: PGlite) {
    this.#db = db
  }

  /** Waits for the turn. The returned function ends it. */
  async enter(): Promise<() => void> {
    const earlier = this.#turn
    let leave = () => {}
    this.#turn = new Promise((resolve) => {
      leave = resolve
    })
    await earlier
    return leave
  }

  send(message: Uint8Array): Promise<Uint8Array> {
    return this.#db.execProtocolRaw(message)
  }

  async rollback(): Promise<void> {
    await this.#db.execProtocolRaw(message('S', ''))
    await this.#db.execProtocolRaw(message('Q', 'rollback\0'))
  }

  close(): Promise<void> {
    return this.#db.close()
  }
}

async function serve(socket: Socket, session: Session): Promise<void> {
  let leave: (() => void) | undefined
  try {
    for await (const { type, bytes } of messages(socket)) {
      if (type === 'X') break
      leave ??= await session.enter()
      const reply = await session.send(bytes)
      socket.write(reply)
      // The last message is ReadyForQuery, with the state: idle, in a transaction, or failed.
      if (Buffer.from(reply.subarray(-6, -1)).equals(READY) && reply.at(-1) === IDLE) {
        leave()
        leave = undefined
      }
    }
  } finally {
    // The client was killed in its transaction.
    if (leave !== undefined) await session.rollback()
    leave?.()
    socket.end()
  }
}

const READY = Buffer.from('Z\0\0\0\x05')
const IDLE = 'I'.charCodeAt(0)

/** The messages of a client after its start, which this function replies to. */
async function* messages(socket: Socket) {
  let rest = Buffer.alloc(0)
  let hasStarted = false
  for await (const chunk of socket) {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const offset = hasStarted ? 1 : 0
      const length = rest.length < offset + 4 ? undefined : rest.readInt32BE(offset) + offset
      if (length === undefined || rest.length < length) break
      const bytes = rest.subarray(0, length)
      rest = rest.subarray(length)
      if (hasStarted) {
        yield { type: String.fromCharCode(bytes[0] ?? 0), bytes }
        continue
      }
      const code = bytes.readInt32BE(4)
      if (code === CANCEL) return
      if (code === SSL || code === GSS) {
        socket.write('N')
        continue
      }
      hasStarted = true
      socket.write(Buffer.concat(WELCOME))
    }
  }
}

function message(type: string, body: string): Buffer {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(4 + Buffer.byteLength(body), 1)
  return Buffer.concat([head, Buffer.from(body)])
}

const WELCOME = [
  message('R', '\0\0\0\0'),
  message('S', 'server_version\x0017.0\0'),
  message('S', 'client_encoding\0UTF8\0'),
  message('S', 'standard_conforming_strings\0on\0'),
  message('S', 'integer_datetimes\0on\0'),
  message('K', '\0\0\0\x01\0\0\0\x01'),
  message('Z', 'I'),
]
