// The truth about a head is what Node does without this package: on the wire, in errors, and in
// the fields that are left on the response after an error.

import type { ServerResponse } from 'node:http'
import http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { rawRequest, serve } from '../testing/raw-client.ts'
import { Capture } from './capture.ts'
import { addAtHead, SentHead, watchHead } from './head.ts'

const REPEATED = ['X-A', '1', 'x-b', '2', 'x-a', '3', 'Set-Cookie', 'a=1', 'set-cookie', 'b=2']
const PAIRS = [
  ['X-A', '1'],
  ['x-b', ['2', '3']],
  ['x-a', '4'],
]

const FORMS: Record<string, readonly unknown[]> = {
  'a status': [201],
  'a status as text': ['201'],
  'a message': [201, 'Made'],
  'an object': [201, { 'X-A': '1', 'X-B': ['2', '3'], 'X-N': 4 }],
  'an object after a message': [201, 'Made', { 'X-A': '1' }],
  'an object after undefined': [201, undefined, { 'X-A': '1' }],
  'two objects': [201, { 'X-A': '1' }, { 'X-B': '2' }],
  'an empty object': [201, {}],
  'an object that repeats names': [
    201,
    { 'X-A': '1', 'x-a': '2', 'set-cookie': ['a=1', 'b=2'], 'Set-Cookie': 'c=3' },
  ],
  'an object that repeats the length': [201, { 'content-length': '1', 'Content-Length': 2 }],
  'a flat array': [201, REPEATED],
  'a flat array after a message': [201, 'Made', REPEATED],
  'an array with arrays': [201, ['X-A', ['1', '2'], 'x-a', '3']],
  'an empty array': [201, []],
  'an odd array': [201, ['X-A', '1', 'X-B']],
  'an array of pairs': [201, PAIRS],
  'two pairs': [201, PAIRS.slice(0, 2)],
  'a value with a line feed': [500, { 'X-B': '1', 'X-A': 'a\nb', 'X-C': '2' }],
  'a line with a line feed': [500, { 'X-B': '1', 'X-A': ['a', 'a\nb'] }],
  'an array with a line feed': [500, ['X-B', '1', 'X-A', 'a\nb', 'X-Old', 'new']],
  'an undefined value': [500, { 'X-B': '1', 'X-A': undefined, 'X-C': '2' }],
  'an array with an undefined value': [500, ['X-B', '1', 'X-A', undefined, 'X-Old', 'new']],
  'an invalid name': [500, { 'X-B': '1', 'X A': '1' }],
  'an empty name': [500, { 'X-B': '1', '': '1' }],
  'an array with an empty name': [500, ['X-B', '1', '', '1']],
  'an invalid message': [500, 'a\nb', { 'X-B': '1' }],
  ...Object.fromEntries(
    ['ENOENT', undefined, null, 0, 99, 100, 600, 1000, 200.5].map((status) => [
      `the status ${status}`,
      [status, { 'X-A': '1' }],
    ]),
  ),
}

const LAYERS: Record<string, (res: ServerResponse) => unknown> = {
  addAtHead: (res) => addAtHead(res, [], ['x-none']),
  watchHead: (res) => watchHead(res, () => {}),
  SentHead: (res) => new SentHead(res, { headOver() {} }),
  Capture: captureIn,
  'Capture over SentHead': (res) => {
    LAYERS.SentHead?.(res)
    captureIn(res)
  },
}

function captureIn(res: ServerResponse): void {
  const observer = { maxBodyBytes: 1024, ended() {} }
  const decision = { action: 'send', capture: true, add: [], remove: [] } as const
  new Capture(res, { ...observer, onHead: () => decision })
}

/** Outer layers that wrap writeHead, and read or change the fields that it gets. */
const OUTER: Record<string, (headers: Record<string, unknown>) => unknown> = {
  adds: (headers) => {
    headers['X-Frame-Options'] = 'DENY'
  },
  changes: (headers) => {
    headers['X-A'] = `${headers['X-A']}, changed`
  },
  deletes: (headers) => delete headers['X-A'],
}

function wrapWriteHead(res: ServerResponse, edit: (headers: Record<string, unknown>) => unknown) {
  const { writeHead } = res
  const own = (...args: unknown[]): unknown => {
    edit(args.at(-1) as Record<string, unknown>)
    return Reflect.apply(writeHead, res, args)
  }
  Object.assign(res, { writeHead: own })
}

interface Seen {
  /** The error, and what is left on the response after it. */
  error?: unknown
  left?: unknown
  wire?: unknown
}

/** Sends a head, and another response if Node refuses it. */
function answer(res: ServerResponse, args: readonly unknown[], seen: Seen): void {
  try {
    Reflect.apply(res.writeHead, res, args)
    res.end()
  } catch (error) {
    seen.error = error instanceof Error && 'code' in error ? error.code : error
    seen.left = { ...res.getHeaders(), status: res.statusCode, message: res.statusMessage }
    res.statusCode = 500
    if (res.statusMessage) res.statusMessage = ''
    res.end()
  }
}

const isOwn = (name: string): boolean => !/^(date|connection|keep-alive)$/i.test(name)

/** The lines of each name in their order. The order of names has no meaning. */
function sorted(lines: ReadonlyArray<readonly [name: string, value: unknown]>): unknown[] {
  return lines.filter(([name]) => isOwn(name)).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
}

async function overHttp1(listener: (res: ServerResponse) => void): Promise<unknown> {
  await using server = await serve((_req, res) => listener(res))
  const [status, ...lines] = (await rawRequest(server.port)).head
  const fields = lines.map((line) => /^([^:]*): ?(.*)$/.exec(line)?.slice(1) ?? [line])
  return [status, sorted(fields.map(([name = '', value]) => [name.toLowerCase(), value]))]
}

async function overHttp2(listener: (res: ServerResponse) => void): Promise<unknown> {
  const server = http2.createServer((_req, res) => listener(res as unknown as ServerResponse))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  try {
    const stream = client.request({ ':path': '/' })
    return await new Promise((resolve) => {
      stream.on('response', (fields) => resolve(sorted(Object.entries(fields))))
      stream.on('error', (error) => resolve(String(error)))
      stream.on('close', () => resolve('closed'))
      stream.resume()
    })
  } finally {
    client.destroy()
    server.close()
  }
}

describe.each([
  ['HTTP/1', overHttp1],
  ['HTTP/2', overHttp2],
] as const)('over %s, writeHead', (_, send) => {
  const run = async (
    args: readonly unknown[],
    before: readonly string[],
    layer?: (res: ServerResponse) => unknown,
    outer?: (headers: Record<string, unknown>) => unknown,
  ): Promise<Seen> => {
    const seen: Seen = {}
    seen.wire = await send((res) => {
      for (const name of before) res.setHeader(name, 'old')
      if (outer !== undefined) wrapWriteHead(res, outer)
      layer?.(res)
      // Node appends to passed arrays.
      answer(res, structuredClone(args), seen)
    })
    return seen
  }

  describe.each([[[]], [['X-Old', 'X-A']]])('after the fields %j', (before) => {
    test.each(Object.entries(FORMS))('does as Node alone with %s', async (_form, args) => {
      const expected = await run(args, before)
      for (const [name, layer] of Object.entries(LAYERS))
        expect({ name, ...(await run(args, before, layer)) }).toEqual({ name, ...expected })
    })

    test.each(Object.entries(OUTER))(
      'gives its fields to a layer that %s some',
      async (_, outer) => {
        for (const form of ['an object', 'an object after a message', 'an empty object']) {
          const args = FORMS[form] ?? []
          const expected = await run(args, ['X-Old'], undefined, outer)
          for (const [name, layer] of Object.entries(LAYERS))
            expect({ name, ...(await run(args, ['X-Old'], layer, outer)) }).toEqual({
              name,
              ...expected,
            })
        }
      },
    )
  })
})
