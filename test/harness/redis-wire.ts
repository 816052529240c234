// One command on one short connection, without a client library. There is no handshake, ready check
// or reconnection, so that the commands of the harness itself are exactly known.
import { connect } from 'node:net'

/** The reply's text (a status or a bulk string). Rejects on an error reply or after `withinMs`. */
export function askRedis(
  address: { host: string; port: number },
  command: string,
  withinMs = 30_000,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(address)
    let received = ''
    const timer = setTimeout(
      () => end(new Error(`No reply to ${command} within ${withinMs} ms`)),
      withinMs,
    )
    function end(outcome: Error | string): void {
      clearTimeout(timer)
      socket.destroy()
      if (typeof outcome === 'string') resolve(outcome)
      else reject(outcome)
    }
    socket.setEncoding('utf8')
    socket.on('connect', () => socket.write(`${command}\r\n`))
    socket.on('data', (chunk) => {
      received += chunk
      const reply = parseReply(received)
      if (reply !== undefined) end(reply)
    })
    socket.on('error', end)
    socket.on('close', () => end(new Error(`Closed before a reply to ${command}`)))
  })
}

function parseReply(text: string): string | Error | undefined {
  const lineEnd = text.indexOf('\r\n')
  if (lineEnd < 0) return undefined
  const line = text.slice(1, lineEnd)
  if (text.startsWith('-')) return new Error(line)
  if (!text.startsWith('$')) return line
  // The harness sends and reads ASCII only, so characters are bytes.
  const length = Number(line)
  const body = text.slice(lineEnd + 2)
  return body.length >= length + 2 ? body.slice(0, length) : undefined
}
