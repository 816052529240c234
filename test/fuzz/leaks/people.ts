// The people who send requests, and the parts of a request that tell a handler who sent it. In half
// of the scenarios, the values of two people are nearly equal. Code that confuses them leaks.

import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { ALICE, BOB, type Certificate, MALLORY } from '../../harness/certificates.ts'
import type { Random } from './random.ts'

/**
 * A part of a request by which a handler may know its caller. `url`: the text after the route's
 * path. `moved`: a layer in front put it into the URL. `certificate`: the name in the client's TLS
 * certificate. `login`: an earlier request on the connection sent it with NTLM or Negotiate.
 */
export const CHANNELS = [
  'sid',
  'tag',
  'authorization',
  'x-device',
  'accept-language',
  'origin',
  'host',
  'url',
  'x-api-key',
  'x-auth-token',
  'x-forwarded-user',
  'x-tenant-id',
  'x-forwarded-host',
  'moved',
  'certificate',
  'login',
  'body',
] as const
export type Channel = (typeof CHANNELS)[number]

/** Channels that bypass a cache as `Authorization` does. */
export const CREDENTIALS: readonly Channel[] = [
  'x-api-key',
  'x-auth-token',
  'x-forwarded-user',
  'x-tenant-id',
]

/**
 * The request header from which a channel is read, or by which it is chosen. Some channels are in
 * no header.
 */
export const HEADER_OF: Readonly<Record<Channel, string | undefined>> = {
  sid: 'cookie',
  tag: 'cookie',
  authorization: 'authorization',
  'x-device': 'x-device',
  'accept-language': 'accept-language',
  origin: 'origin',
  host: 'host',
  url: undefined,
  'x-api-key': 'x-api-key',
  'x-auth-token': 'x-auth-token',
  'x-forwarded-user': 'x-forwarded-user',
  'x-tenant-id': 'x-tenant-id',
  'x-forwarded-host': 'x-forwarded-host',
  moved: 'x-place',
  certificate: undefined,
  login: undefined,
  body: undefined,
}

export interface Person {
  /**
   * Occurs in every response about this person, and must not occur in a response to another person.
   */
  readonly secret: string
  /** The name of this person in `identity` and `key` callbacks. */
  readonly identity: string
  readonly values: Readonly<Partial<Record<Channel, string>>>
}

/** Certificates by the name in them. Mallory's is self-signed. A fourth person has none. */
export const CERTIFICATES: Readonly<Record<string, Certificate>> = {
  alice: ALICE,
  bob: BOB,
  mallory: MALLORY,
}

type Values = ReadonlyArray<string | undefined>

/**
 * If a key had no lengths, the first two values of `sid` with `tag`, and of `url`, would be equal.
 */
const ALIKE: Readonly<Record<Exclude<Channel, 'origin'>, Values>> = {
  sid: ['1', '1ctagtag=2', 'A', 'a'],
  tag: ['2ctag', undefined, 'b', 'B'],
  authorization: ['Bearer a', 'bearer a', 'Bearer a,b', 'Basic a'],
  'x-device': ['a', 'A', 'a;b', '"a"'],
  'accept-language': ['de', 'de-DE', 'de;q=0.5', 'fr'],
  host: ['a.test', 'a.test:8080', 'ab.test', 'b.test'],
  url: ['wx?y=1', 'w?xy=1', 'w?y=1&x=1&y=2', 'w?y=2&x=1&y=1'],
  'x-api-key': ['a', 'A', 'a,b', 'a b'],
  'x-auth-token': ['a', 'a=', 'A', '"a"'],
  'x-forwarded-user': ['a', 'A', 'a, b', 'b'],
  'x-tenant-id': ['a', 'A', '1', '01'],
  'x-forwarded-host': ['a.test', 'A.test', 'a.test, b.test', 'b.test'],
  moved: ['a', 'A', 'a%2F', 'a~'],
  certificate: Object.keys(CERTIFICATES),
  login: ['NTLM a', 'NTLM A', 'Negotiate a', 'ntlm a'],
  body: ['a', 'A', '"a"', 'a=1'],
}
/** Hosts that frameworks take for one, and queries that parsers take for reordered parameters. */
const ALIKE_OTHERWISE: Partial<typeof ALIKE> = {
  host: ['a.test', 'A.test', 'x@a.test', 'a.test, b.test'],
  url: ['w??x=1&y=1', 'w?y=1&?x=1', 'w??y=1&z=1', 'w?z=1&?y=1'],
}
/** Lone surrogates become the same character in UTF-8. NUL separates the parts of a key. */
const ALIKE_IDENTITIES = ['a\ud800', 'a\ud801', 'a', 'a\0i']

export function makePeople(random: Random): Person[] {
  const alike = random.chance(0.5)
  const lists = random.chance(0.5) ? ALIKE : { ...ALIKE, ...ALIKE_OTHERWISE }
  const order = alike && random.chance(0.5) ? [2, 3, 0, 1] : [0, 1, 2, 3]
  return Array.from({ length: 2 + random.int(3) }, (_, index) => {
    const secret = `secret${random.hex(12)}`
    const origin = `https://${secret}.example`
    const rank = order[index] ?? index
    return alike
      ? alikePerson(secret, origin, lists, rank)
      : plainPerson(secret, origin, random.hex(8), index)
  })
}

function alikePerson(secret: string, origin: string, lists: typeof ALIKE, rank: number): Person {
  const values: Partial<Record<Channel, string>> = { origin }
  for (const [channel, each] of Object.entries(lists) as Array<[Channel, Values]>) {
    const value = each[rank]
    if (value !== undefined) values[channel] = value
  }
  return { secret, identity: ALIKE_IDENTITIES[rank] ?? secret, values }
}

function plainPerson(secret: string, origin: string, id: string, index: number): Person {
  const certificate = Object.keys(CERTIFICATES)[index]
  const values = {
    ...(certificate !== undefined && { certificate }),
    login: `NTLM ${id}`,
    body: `body ${id}`,
    sid: `s${id}`,
    tag: `t${id}`,
    authorization: `Bearer ${id}`,
    'x-device': `d${id}`,
    'accept-language': `x-${id}`,
    host: `${id}.test`,
    origin,
    url: `w/${id}?y=${id}`,
    'x-api-key': `k${id}`,
    'x-auth-token': `t${id}`,
    'x-forwarded-user': `u${id}`,
    'x-tenant-id': `t${id}`,
    'x-forwarded-host': `${secret}.test`,
    moved: id,
  }
  return { secret, identity: id, values }
}

/** Properties that requests of Express, Koa and node:http have in common. */
export interface Received {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly url?: string | undefined
  readonly originalUrl?: string
  readonly baseUrl?: string
  /** Properties of a Koa context. */
  readonly req?: object
}

/** The request body that the handler has read, by request. */
export const bodies = new WeakMap<object, string>()
/** The login of each connection. */
const logins = new WeakMap<object, string>()

/** A layer for apps that log in connections: later requests carry no credentials. */
export function noteLogin(req: IncomingMessage): void {
  const { authorization } = req.headers
  if (authorization !== undefined && /^(ntlm|negotiate) /i.test(authorization))
    logins.set(connectionOf(req), authorization)
}

/** HTTP/2 has a socket object of its own for each request. */
function connectionOf(req: object): object {
  const { stream, socket } = req as { stream?: { session?: object }; socket: object }
  return stream?.session ?? socket
}

function certificateOf(req: object): string | undefined {
  const { socket } = req as { socket: Partial<TLSSocket> }
  try {
    return socket.getPeerCertificate?.()?.subject?.CN as string | undefined
  } catch {
    // The session of an HTTP/2 request is already closed.
    return undefined
  }
}

/** The value of a channel in this request, read as a simple handler would. */
export function saidOn(received: Received, channel: Channel): string | undefined {
  if (channel === 'url') return /^\/r\d+\/(.*)$/s.exec(targetOf(received))?.[1]
  if (channel === 'moved') return /^\/r\d+\/~([^/]*)\//.exec(urlOf(received))?.[1]
  if (channel === 'sid' || channel === 'tag') return cookieOf(received, channel)
  const { req = received } = received
  if (channel === 'body') return bodies.get(req)
  if (channel === 'login') return logins.get(connectionOf(req))
  if (channel === 'certificate') return certificateOf(req)
  const { headers } = received
  const value = channel === 'host' ? (headers[':authority'] ?? headers.host) : headers[channel]
  return typeof value === 'string' ? value : undefined
}

/** The target of a request, before any mounting. */
export function targetOf({ originalUrl, url }: Received): string {
  return originalUrl ?? url ?? ''
}

/** The path that a layer in front has set. */
function urlOf({ baseUrl = '', url = '' }: Received): string {
  return baseUrl + url
}

function cookieOf({ headers }: Received, name: string): string | undefined {
  const pairs = String(headers.cookie ?? '').split('; ')
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1)
}

/** The person that a handler recognises by this channel alone. */
export function personOn(
  people: readonly Person[],
  received: Received,
  channel: Channel,
): Person | undefined {
  const value = saidOn(received, channel)
  return value === undefined ? undefined : people.find((each) => each.values[channel] === value)
}

/** The person that a middleware recognises by any channel. */
export function anyPerson(people: readonly Person[], received: Received): Person | undefined {
  for (const channel of CHANNELS) {
    const person = personOn(people, received, channel)
    if (person !== undefined) return person
  }
  return undefined
}
