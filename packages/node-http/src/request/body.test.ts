// The body as the middleware sees it. The next reader gets the very same bytes.

import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, createServer } from 'node:http2'
import { createRequire } from 'node:module'
import type { AddressInfo, Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { deferred } from '../testing/deferred.ts'
import { serve, startRequest } from '../testing/raw-client.ts'
import {
  discardRequestBody,
  type RequestBody,
  readRequestBody as readBody,
  rememberRawBody,
} from './body.ts'

const readRequestBody = (
  req: IncomingMessage,
  maxBytes: number,
  parsed: ReturnType<NonNullable<Parameters<typeof readBody>[0]['parsed']>>,
) => readBody({ req, native: req, parsed: () => parsed }, maxBytes)

type Parser = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void
interface BodyParser {
  json(options?: object): Parser
  raw(options?: object): Parser
  text(options?: object): Parser
  urlencoded(options?: object): Parser
}

const require = createRequire(import.meta.url)
const PARSERS: ReadonlyArray<readonly [string, BodyParser]> = [
  ['body-parser 1', createRequire(require.resolve('express4'))('body-parser')],
  ['body-parser 2', require('body-parser')],
]
const LIMIT = 100_000

function parse(parser: Parser, req: IncomingMessage): Promise<unknown> {
  return new Promise((resolve, reject) => {
    parser(req, {} as ServerResponse, (error) => {
      if (error) reject(error)
      else resolve(bodyOf(req))
    })
  })
}

function bodyOf(req: IncomingMessage): unknown {
  return Reflect.get(req, 'body')
}

/** The ways in which a later layer may read the body. */
const READERS: ReadonlyArray<readonly [string, (req: IncomingMessage) => Promise<Uint8Array>]> = [
  [
    'data events',
    (req) =>
      new Promise((resolve, reject) => {
        const chunks: Buffer[] = []
        req.on('data', (chunk: Buffer) => chunks.push(chunk))
        req.on('end', () => resolve(Buffer.concat(chunks))).on('error', reject)
      }),
  ],
  [
    'readable events',
    (req) =>
      new Promise((resolve) => {
        const chunks: Buffer[] = []
        req.on('readable', () => {
          for (let chunk = req.read(7); chunk !== null; chunk = req.read()) chunks.push(chunk)
        })
        req.on('end', () => resolve(Buffer.concat(chunks)))
      }),
  ],
  ['for await', (req) => buffer(req)],
  ['pipe', (req) => buffer(req.pipe(new PassThrough()))],
  ...PARSERS.map(
    ([name, parser]) =>
      [
        name,
        async (req: IncomingMessage) => {
          const body = await parse(parser.raw({ type: () => true, limit: '1mb' }), req)
          return body instanceof Uint8Array ? body : Buffer.alloc(0)
        },
      ] as const,
  ),
  [
    'a later turn',
    async (req) => {
      for (let i = 0; i < 3; i += 1) await turn()
      return buffer(req)
    },
  ],
]

const BODY = '{"sum":7,"for":"Zoë"}'
const LONG = 'stampede '.repeat(10_000)
const chunked = (...parts: string[]): string[] => [
  ...parts.map((part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`),
  '0\r\n\r\n',
]

/** Fields, and the parts after the head, each in a packet of its own. */
const FRAMINGS: ReadonlyArray<readonly [string, string[], string[], string]> = [
  ['a length', [`Content-Length: ${Buffer.byteLength(BODY)}`], [BODY], BODY],
  ['a length, in parts', ['Content-Length: 9'], ['{"a"', ':', '"b"}'], '{"a":"b"}'],
  ['a length, long', [`Content-Length: ${LONG.length}`], [LONG], LONG],
  ['chunks', ['Transfer-Encoding: chunked'], [chunked('{"a":', '"b"}').join('')], '{"a":"b"}'],
  ['chunks, in parts', ['Transfer-Encoding: chunked'], chunked('{"a":', '"b"}'), '{"a":"b"}'],
  ['chunks, long', ['Transfer-Encoding: chunked'], chunked(LONG.slice(9), 'stampede '), LONG],
  ['no chunks', ['Transfer-Encoding: chunked'], ['0\r\n\r\n'], ''],
  ['no chunks, late', ['Transfer-Encoding: chunked'], ['0', '\r\n\r\n'], ''],
  ['a length of 0', ['Content-Length: 0'], [], ''],
  ['nothing', [], [], ''],
]

interface Seen {
  body: RequestBody
  after: Uint8Array
}

/**
 * One request whose parts are written one by one, each after the one before has arrived, or all at
 * once.
 */
async function send(
  framing: readonly [string, string[], string[], string],
  how: 'at once' | 'slowly',
  reader: (req: IncomingMessage) => Promise<Uint8Array>,
): Promise<{ seen: Seen[]; answers: string }> {
  const [, fields, parts] = framing
  const seen: Seen[] = []
  await using server = await serve(async (req, res) => {
    const body = await readRequestBody(req, LIMIT, { body: bodyOf(req) })
    seen.push({ body, after: await reader(req) })
    res.end('done')
  })
  const client = startRequest(server.port, ['POST / HTTP/1.1', 'Host: a', ...fields])
  client.setNoDelay(true)
  const answers = collect(client)
  for (const part of parts) {
    if (how === 'slowly') for (let i = 0; i < 20; i += 1) await turn()
    client.write(part)
  }
  // The connection must work for another request.
  await answers.until(1)
  client.write(`POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}`)
  await answers.until(2)
  return { seen, answers: answers.text() }
}

function collect(client: Socket): { text(): string; until(answers: number): Promise<void> } {
  let text = ''
  client.setEncoding('latin1').on('data', (data: string) => {
    text += data
  })
  const count = (): number => text.split('HTTP/1.1 200').length - 1
  return {
    text: () => text,
    async until(answers) {
      while (count() < answers) await once(client, 'data')
    },
  }
}

describe.each(READERS)('a body that a later middleware reads by %s', (_, reader) => {
  test.each(FRAMINGS.flatMap((f) => [[...f, 'at once'] as const, [...f, 'slowly'] as const]))(
    'is read first, and stays complete for that middleware: %s (%#)',
    async (name, fields, parts, text, how) => {
      const { seen } = await send([name, fields, parts, text], how, reader)
      const bytes = Buffer.from(text)
      expect(seen[0]?.body).toEqual(
        text === '' ? { type: 'none' } : { type: 'bytes', bytes: expect.anything() },
      )
      if (seen[0]?.body.type === 'bytes') expect(bytes.equals(seen[0].body.bytes)).toBe(true)
      expect(bytes.equals(seen[0]?.after ?? Buffer.from('?'))).toBe(true)
      expect(Buffer.from(seen[1]?.after ?? []).toString()).toBe('{}')
    },
  )
})

/** Calls `use` with each request, and returns its result for the first. */
async function withRequest<T>(
  use: (req: IncomingMessage, res: ServerResponse) => Promise<T>,
  fields: readonly string[],
  body: string,
): Promise<T> {
  let result: Promise<T> | undefined
  await using server = await serve((req, res) => {
    result = use(req, res)
    result.then(
      () => res.end(),
      () => res.end(),
    )
  })
  const client = startRequest(server.port, [
    'POST / HTTP/1.1',
    'Host: a',
    'Connection: close',
    ...fields,
  ])
  client.write(body)
  client.resume()
  await once(client, 'close')
  return await (result as Promise<T>)
}

const lengthOf = (body: string): string => `Content-Length: ${Buffer.byteLength(body)}`
const JSON_TYPE = 'Content-Type: application/json'

describe('a body that is too large', () => {
  test('is not read if its Content-Length is over the limit', async () => {
    const body = await withRequest(
      async (req) => [await readRequestBody(req, 3, { body: undefined }), req.readableDidRead],
      ['Content-Length: 4'],
      'four',
    )
    expect(body).toEqual([{ type: 'too-large' }, false])
  })

  test('stays complete for the handler if it comes in chunks', async () => {
    const text = await withRequest(
      async (req) => {
        const body = await readRequestBody(req, 1000, { body: undefined })
        return [body.type, (await buffer(req)).toString()]
      },
      ['Transfer-Encoding: chunked'],
      chunked(LONG, LONG).join(''),
    )
    expect(text).toEqual(['too-large', LONG + LONG])
  })

  test('can be discarded if it comes in chunks, so that the connection can be used again', async () => {
    await using server = await serve(async (req, res) => {
      const body = await readRequestBody(req, 1000, { body: undefined })
      res.end(body.type)
      discardRequestBody(req)
    })
    const client = startRequest(server.port, [
      'POST / HTTP/1.1',
      'Host: a',
      'Transfer-Encoding: chunked',
    ])
    const answers = collect(client)
    for (let i = 0; i < 20; i += 1) client.write(`${LONG.length.toString(16)}\r\n${LONG}\r\n`)
    await answers.until(1)
    client.write('0\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1')
    await answers.until(2)
    expect(answers.text()).toMatch(/too-large[\s\S]*bytes/)
    client.destroy()
  })
})

test('a client with Expect gets 100 Continue, and its body is read', async () => {
  await using server = await serve(async (req, res) => {
    const body = await readRequestBody(req, LIMIT, { body: undefined })
    res.end(`${body.type} ${await buffer(req)}`)
  })
  const client = startRequest(server.port, [
    'POST / HTTP/1.1',
    'Host: a',
    'Expect: 100-continue',
    'Content-Length: 4',
  ])
  const answers = collect(client)
  await once(client, 'data')
  expect(answers.text()).toBe('HTTP/1.1 100 Continue\r\n\r\n')
  client.write('body')
  await answers.until(1)
  expect(answers.text()).toContain('bytes body')
  client.destroy()
})

test('two requests in one TCP packet both get their own body', async () => {
  await using server = await serve(async (req, res) => {
    const body = await readRequestBody(req, LIMIT, { body: undefined })
    res.end(`[${body.type} ${await buffer(req)}]`)
  })
  const request = (text: string) => `POST / HTTP/1.1\r\nHost: a\r\n${lengthOf(text)}\r\n\r\n${text}`
  const client = startRequest(server.port, ['POST / HTTP/1.1', 'Host: a', 'Content-Length: 0'])
  const answers = collect(client)
  client.write(request('one') + request('two'))
  await answers.until(3)
  expect(answers.text()).toMatch(/\[none \][\s\S]*\[bytes one\][\s\S]*\[bytes two\]/)
  client.destroy()
})

describe('a client that leaves before the end of its body', () => {
  test.each([
    ['with a length', ['Content-Length: 10'], 'half'],
    ['in chunks', ['Transfer-Encoding: chunked'], '4\r\nhalf\r\n'],
  ])('causes an incomplete body: %s', async (_, fields, sent) => {
    let seen: ((body: RequestBody) => void) | undefined
    const body = new Promise<RequestBody>((resolve) => {
      seen = resolve
    })
    const { promise: arrival, resolve: arrived } = deferred()
    await using server = await serve((req) => {
      Promise.resolve(readRequestBody(req, LIMIT, { body: undefined })).then(seen)
      req.once('readable', arrived)
    })
    const client = startRequest(server.port, ['POST / HTTP/1.1', 'Host: a', ...fields])
    client.write(sent)
    await arrival
    client.destroy()
    expect(await body).toEqual({ type: 'incomplete' })
  })

  test('causes an incomplete body if nothing was read before', async () => {
    let body: Promise<RequestBody> | undefined
    const { promise: finished, resolve: done } = deferred()
    await using server = await serve((req) => {
      req.once('close', () => {
        body = Promise.resolve(readRequestBody(req, LIMIT, { body: undefined }))
        done()
      })
      client.destroy()
    })
    const client = startRequest(server.port, ['POST / HTTP/1.1', 'Host: a', 'Content-Length: 10'])
    await finished
    expect(await body).toEqual({ type: 'incomplete' })
  })
})

describe.each(PARSERS)('a body after a parser of %s', (_, parser) => {
  const behind = (use: Parser, fields: string[], body: string) =>
    withRequest(
      async (req) => {
        await parse(use, req)
        return readRequestBody(req, LIMIT, { body: bodyOf(req) })
      },
      [...fields, lengthOf(body)],
      body,
    )

  test.each([
    ['an object', '{"a":1}', { a: 1 }],
    ['an array', '[]', []],
    ['an empty object', '{}', {}],
  ])('is the parsed value after json() for %s', async (_name, text, value) => {
    expect(await behind(parser.json(), [JSON_TYPE], text)).toEqual({ type: 'parsed', value })
  })

  test.each([
    ['null', null],
    ['7', 7],
    ['false', false],
    ['""', ''],
  ])('is the parsed value after json() that is not strict: %s', async (text, value) => {
    const body = await behind(parser.json({ strict: false }), [JSON_TYPE], text)
    expect(body).toEqual({ type: 'parsed', value })
  })

  test('is the raw bytes after json() with rememberRawBody', async () => {
    const body = await behind(parser.json({ verify: rememberRawBody }), [JSON_TYPE], ' {"a":1} ')
    expect(body).toEqual({ type: 'bytes', bytes: Buffer.from(' {"a":1} ') })
  })

  test('is the raw bytes after raw()', async () => {
    const body = await behind(parser.raw({ type: () => true }), [], 'abc')
    expect(body).toEqual({ type: 'bytes', bytes: Buffer.from('abc') })
  })

  test('is the parsed value after text() and urlencoded()', async () => {
    const text = await behind(parser.text(), ['Content-Type: text/plain'], 'abc')
    expect(text).toEqual({ type: 'parsed', value: 'abc' })
    const type = 'Content-Type: application/x-www-form-urlencoded'
    const form = await behind(parser.urlencoded({ extended: false }), [type], 'a=1&a=2')
    expect(form.type === 'parsed' && { ...(form.value as object) }).toEqual({ a: ['1', '2'] })
  })

  test('is read, and stays readable, if the parser ignores its content type', async () => {
    const seen = await withRequest(
      async (req) => {
        await parse(parser.json(), req)
        const body = await readRequestBody(req, LIMIT, { body: bodyOf(req) })
        return [body, (await buffer(req)).toString()]
      },
      ['Content-Type: text/csv', 'Content-Length: 3'],
      'a,b',
    )
    expect(seen).toEqual([{ type: 'bytes', bytes: Buffer.from('a,b') }, 'a,b'])
  })

  test('is unknown if another middleware has read it', async () => {
    const read = async (req: IncomingMessage) => {
      await parse(parser.json(), req)
      await buffer(req)
      return readRequestBody(req, LIMIT, { body: bodyOf(req) })
    }
    const fields = ['Content-Type: text/csv', 'Content-Length: 3']
    expect(await withRequest(read, fields, 'a,b')).toEqual({ type: 'unseen' })
  })

  test('is absent if it is chunked without data', async () => {
    const body = await withRequest(
      async (req) => {
        await parse(parser.json(), req)
        return readRequestBody(req, LIMIT, { body: bodyOf(req) })
      },
      [JSON_TYPE, 'Transfer-Encoding: chunked'],
      '0\r\n\r\n',
    )
    expect(body).toEqual({ type: 'none' })
  })
})

describe('a body that an earlier middleware has read', () => {
  const left = (what: object, body: unknown = {}, more: object = {}) =>
    withRequest(
      async (req) => {
        await buffer(req)
        Object.assign(req, what)
        return readRequestBody(req, 10, { body, ...more })
      },
      ['Content-Length: 3'],
      'abc',
    )
  const file = { fieldname: 'f', originalname: 'a.txt', mimetype: 'text/plain' }
  const inMemory = { ...file, buffer: Buffer.from('A') }

  test.each([
    ['a raw body', { rawBody: Buffer.from('abc') }],
    ['a raw body as a string', { rawBody: 'abc' }],
  ])('is known as bytes from %s', async (_, what) => {
    expect(await left(what)).toEqual({ type: 'bytes', bytes: Buffer.from('abc') })
  })

  test('is too large if the raw body is too large', async () => {
    expect(await left({ rawBody: 'more than ten' })).toEqual({ type: 'too-large' })
    expect(await left({}, Buffer.from('more than ten'))).toEqual({ type: 'too-large' })
  })

  test.each([
    ['a file', { file: inMemory }],
    ['an array of files', { files: [inMemory] }],
    ['files by field', { files: { f: [inMemory] } }],
  ])('includes %s in memory', async (_, what) => {
    const value = { body: { a: '1' }, files: [inMemory] }
    expect(await left(what, { a: '1' })).toEqual({ type: 'parsed', value })
  })

  test('is unknown if a file was written to disk', async () => {
    expect(await left({ files: [inMemory, { ...file, path: '/tmp/a' }] })).toEqual({
      type: 'unseen',
    })
  })

  test.each([
    ['in memory', inMemory, { type: 'parsed', value: { body: { a: '1' }, files: [inMemory] } }],
    ['on disk', { ...file, path: '/tmp/a' }, { type: 'unseen' }],
  ])(
    'includes files of the property that the framework uses, if they are in memory: %s',
    async (_, one, expected) => {
      const files = { f: [one] }
      expect(await left({}, { a: '1' }, { files })).toEqual(expected)
      // Listed twice, it is still one file.
      expect(await left({ files }, { a: '1' }, { files })).toEqual(expected)
    },
  )

  test('counts as an empty object only if parsers leave no other trace of a body', async () => {
    const type = (value: string) => ({ headers: { 'content-length': '3', 'content-type': value } })
    const json = type('Application/JSON; charset=utf-8')
    expect(await left(json, {})).toEqual({ type: 'unseen' })
    for (const what of [json, type('text/x+json'), type('application/x-www-form-urlencoded')]) {
      expect(await left(what, {}, { leavesNothing: true })).toEqual({ type: 'parsed', value: {} })
    }
    expect(await left(type('text/csv'), {}, { leavesNothing: true })).toEqual({ type: 'unseen' })
  })

  test('is an object of the fields for an upload without files', async () => {
    expect(await left({ files: [] }, { a: '1' })).toEqual({ type: 'parsed', value: { a: '1' } })
  })
})

test('an encoding that an earlier middleware has set on the request is kept', async () => {
  const text = await withRequest(
    async (req) => {
      req.setEncoding('utf8')
      const body = await readRequestBody(req, LIMIT, { body: undefined })
      let after = ''
      for await (const chunk of req) after += chunk
      return [body, after]
    },
    [lengthOf('Zoë')],
    'Zoë',
  )
  expect(text).toEqual([{ type: 'bytes', bytes: Buffer.from('Zoë') }, 'Zoë'])
})

test('a request that another listener already reads has an unknown body', async () => {
  const body = await withRequest(
    async (req) =>
      readRequestBody(
        req.on('data', () => {}),
        LIMIT,
        { body: undefined },
      ),
    ['Content-Length: 1'],
    'a',
  )
  expect(body).toEqual({ type: 'unseen' })
})

describe('a body on HTTP/2', () => {
  async function exchange(sent: readonly string[] | 'no body' | 'leaves'): Promise<unknown[]> {
    const { promise: seen, resolve: done } = deferred<unknown[]>()
    const server = createServer(async (request, response) => {
      // Adapters get the compatibility objects.
      const req = request as unknown as IncomingMessage
      const body = await readRequestBody(req, LIMIT, { body: undefined })
      const after = sent === 'leaves' ? '' : (await buffer(req)).toString()
      done([body, after])
      response.end()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    client.on('error', () => {})
    const head = { ':method': 'POST' }
    const stream = client.request(head, { endStream: sent === 'no body' })
    stream.on('error', () => {})
    if (sent === 'leaves') {
      server.once('stream', (arrived) => arrived.once('data', () => client.destroy()))
      stream.write('half')
    } else if (sent !== 'no body') {
      for (const part of sent) {
        stream.write(part)
        await turn()
      }
      stream.end()
    }
    const result = await seen
    client.destroy()
    server.close()
    return result
  }

  test('is read first, and stays complete for the listener', async () => {
    expect(await exchange(['ab', 'cd'])).toEqual([
      { type: 'bytes', bytes: Buffer.from('abcd') },
      'abcd',
    ])
    expect(await exchange([LONG.slice(9), 'stampede '])).toMatchObject([{ type: 'bytes' }, LONG])
  })

  test('is absent if the client sends no data', async () => {
    expect(await exchange('no body')).toEqual([{ type: 'none' }, ''])
    expect(await exchange([])).toEqual([{ type: 'none' }, ''])
  })

  test('is incomplete if the client leaves', async () => {
    expect(await exchange('leaves')).toEqual([{ type: 'incomplete' }, ''])
  })
})

describe('a getter of the app that throws while the body is read', () => {
  const throwing = (target: object, name: string): void => {
    Object.defineProperty(target, name, {
      get() {
        throw new Error(`no ${name}`)
      },
    })
  }
  test.each<[what: string, begin: (req: IncomingMessage, parsed: object) => void]>([
    ['destroyed, before any reader', (req) => throwing(req, 'destroyed')],
    ['readableLength, before any reader', (req) => throwing(req, 'readableLength')],
    ['readableDidRead, after the first check', (req) => seenOnce(req, 'readableDidRead')],
    ['body, with a reader that begins meanwhile', (req, parsed) => beside(req, parsed, 'body')],
    ['files, with a reader that begins meanwhile', (req, parsed) => beside(req, parsed, 'files')],
    ['file, with a reader that begins meanwhile', (req) => beside(req, req, 'file')],
  ])('rejects: %s', async (_, begin) => {
    const parsed = { body: undefined }
    await using server = await serve(async (req, res) => {
      const result = new Promise((resolve) =>
        resolve(readAfter(() => begin(req, parsed), req, parsed)),
      )
      res.end(await result.then(String, (error: Error) => `rejected: ${error.message}`))
    })
    const response = await fetch(`http://127.0.0.1:${server.port}`, { method: 'POST', body: 'abc' })
    expect(await response.text()).toMatch(/^rejected: no /)
  })

  function readAfter(begin: () => void, req: IncomingMessage, parsed: { body: unknown }): unknown {
    begin()
    return readRequestBody(req, LIMIT, parsed)
  }
  /** Another layer begins to read in the turn after the first check. */
  function beside(req: IncomingMessage, holder: object, name: string): void {
    throwing(holder, name)
    queueMicrotask(() => req.resume())
  }
  function seenOnce(req: IncomingMessage, name: string): void {
    let reads = 0
    Object.defineProperty(req, name, {
      get() {
        reads += 1
        if (reads > 1) throw new Error(`no ${name}`)
        return false
      },
    })
  }
})
