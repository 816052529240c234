// Records which parts of a request an app reads, and which data of layers in front of the cache.
// The option `audit` uses this in development. The app gets the values themselves, and views only
// of the holders of data, such as `session`.

import { IncomingMessage, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'

/** Properties that Node and the frameworks set, and that hold no more than the key has. */
const KNOWN: ReadonlySet<string> = new Set([
  ...Object.getOwnPropertyNames(new IncomingMessage(new Socket())),
  ...Object.getOwnPropertyNames(IncomingMessage.prototype),
  ...['app', 'baseUrl', 'body', 'captures', 'cookies', 'ctx', 'id', 'log', 'matched', 'next'],
  ...['originalUrl', 'params', 'query', 'raw', 'rawBody', 'req', 'request', 'res', 'respond'],
  ...['response', 'route', 'router', 'routerName', 'routerPath', 'secret', 'signedCookies'],
  // With `trustProxy`, Fastify defines these for each app.
  ...['host', 'hostname', 'ip', 'ips', 'port', 'protocol'],
])
/** Holders of data: a read of the holder alone is no read of the data, but one of a member is. */
const HOLDERS: ReadonlySet<string> = new Set(['session', 'state', 'locals'])
/** Members that session middlewares read themselves. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(['cookie', 'changed', 'deleted', 'isNew'])

/** The parts that a handler has read so far: the log that the cache checks. */
export class Reads {
  readonly headers: Set<string> = new Set()
  readonly cookies: Set<string> = new Set()
  readonly query: Set<string> = new Set()
  readonly layers: Set<string> = new Set()
  namesCookies = true
  endsAtHead = false
  #isOver = false
  #quiet = 0

  stop(): void {
    this.#isOver = true
  }

  /** Calls a function of a layer or a framework, whose reads are not those of the handler. */
  quietly<Result>(run: () => Result): Result {
    this.#quiet += 1
    try {
      return run()
    } finally {
      this.#quiet -= 1
    }
  }

  note(log: Set<string>, name: string): void {
    if (!this.#isOver && this.#quiet === 0) log.add(name)
  }

  /** Records reads of the cookies and of the layers' properties of a request or context. */
  watch(target: object, label: string): void {
    for (const name of ['cookies', 'signedCookies']) this.watchMembers(target, name, this.cookies)
    const ofLayers = [...Object.getOwnPropertyNames(target), ...gettersOfApp(target)].filter(
      (name) => !KNOWN.has(name) && !name.startsWith('_'),
    )
    const inherited = ['session', 'user'].filter((name) => name in target)
    for (const name of new Set([...ofLayers, ...inherited])) this.watchLayer(target, name, label)
  }

  watchMembers(target: object, name: string, log: Set<string>): void {
    const onMember = (member: string): void => this.note(log, member.toLowerCase())
    watchProperty(this, target, name, (value) => recording(this, value, onMember))
  }

  /** Records reads of a property that a layer has set. A value of the handler is no input. */
  watchLayer(target: object, name: string, label: string): void {
    const path = `${label}.${name}`
    const onMember = (member: string, value: unknown): void => {
      if (value === undefined || OWN_MEMBERS.has(member)) return
      this.note(this.layers, `${path}.${member}`)
    }
    const onRead = (value: unknown): unknown => {
      if (HOLDERS.has(name)) return recording(this, value, onMember)
      // The handler gets the object itself: a view of a Date or a Set is none, nor is it equal.
      if (value !== undefined) this.note(this.layers, path)
      return value
    }
    watchProperty(this, target, name, onRead, true)
  }
}

/** Prototypes behind the last one of a framework, also over HTTP/2. */
const LAST: ReadonlySet<object> = new Set([
  IncomingMessage.prototype,
  Readable.prototype,
  Object.prototype,
])

/**
 * Names of getters that the app has added to the prototype of its requests or contexts. The last
 * prototype of a framework and all of Node have no data of layers.
 */
function gettersOfApp(target: object): string[] {
  const names: string[] = []
  let at: object = Object.getPrototypeOf(target)
  for (;;) {
    const next: object | null = Object.getPrototypeOf(at)
    if (next === null || LAST.has(next)) break
    const found = Object.entries(Object.getOwnPropertyDescriptors(at))
    names.push(...found.filter(([, { get }]) => get !== undefined).map(([name]) => name))
    at = next
  }
  return names
}

interface Watched {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The object that the handler gets. */
  readonly native: unknown
}

/** Starts the recording. Call it when `req` has the headers that the handler is to see. */
export function watchReads({ req, res, native }: Watched): Reads {
  const reads = new Reads()
  const given: Context = Object(native)
  const isKoa = given.request?.ctx === given
  for (const name of ['headers', 'headersDistinct']) reads.watchMembers(req, name, reads.headers)
  reads.watchMembers(isKoa ? Object(given.request) : given, 'query', reads.query)
  reads.watch(req, 'req')
  watchProperty(reads, req, 'rawHeaders', (lines) =>
    recording(reads, lines, () => reads.note(reads.layers, 'req.rawHeaders')),
  )
  if (isHono(given)) watchVariables(reads, given)
  else if (given !== req) reads.watch(given, isKoa ? 'ctx' : 'request')
  // The rest runs in layers in front of the cache.
  reads.endsAtHead = isKoa || isHono(given)
  if ('locals' in res) reads.watchLayer(res, 'locals', 'res')
  // A layer in front, such as a session, may have wrapped these functions and reads the request in
  // them.
  for (const name of ['writeHead', 'write', 'end'] as const) {
    const original = res[name] as (...args: unknown[]) => unknown
    const quiet = (...args: unknown[]): unknown => {
      if (name === 'end') reads.stop()
      return reads.quietly(() => original.apply(res, args))
    }
    Object.assign(res, { [name]: quiet })
  }
  return reads
}

/** A request or a context of a framework. */
interface Context {
  readonly request?: { readonly ctx?: unknown }
}

/** The context of Hono, with variables of layers. */
interface Variables extends Context {
  get(key: string): unknown
  set(key: string, value: unknown): void
}

function isHono(given: Context): given is Variables {
  return 'var' in given && 'get' in given && 'set' in given
}

/** Records reads of the variables that layers in front have set by `c.set`. */
function watchVariables(reads: Reads, c: Variables): void {
  // Helpers such as getCookie() read the whole field.
  reads.namesCookies = false
  const { get, set } = c
  const own = new Set<unknown>()
  const seen = (key: PropertyKey, value: unknown): unknown => {
    if (value !== undefined && !own.has(key)) reads.note(reads.layers, `c.get('${String(key)}')`)
    return value
  }
  const watched: Pick<Variables, 'get' | 'set'> = {
    get: (key) => seen(key, get(key)),
    set(key, value) {
      own.add(key)
      set(key, value)
    },
  }
  Object.assign(c, watched)
  const all = (): object => Reflect.get(Object.getPrototypeOf(c), 'var', c)
  const view = { get: (target: object, key: PropertyKey) => seen(key, Reflect.get(target, key)) }
  Object.defineProperty(c, 'var', { configurable: true, get: () => new Proxy(all(), view) })
}

/**
 * Replaces a property by a getter that returns the result of `onRead`. If it belongs to a layer,
 * the handler may assign another value, which is not recorded.
 */
function watchProperty(
  reads: Reads,
  target: object,
  name: string,
  onRead: (value: unknown) => unknown,
  isOfLayer = false,
): void {
  const found = describe(target, name)
  // A property that cannot be replaced stays unwatched: the recording changes nothing for the app.
  if (Object.getOwnPropertyDescriptor(target, name)?.configurable === false) return
  const read = (): unknown => (found?.get ? found.get.call(target) : found?.value)
  let assigned: { readonly value: unknown } | undefined
  let last: { readonly value: unknown; readonly view: unknown } | undefined
  Object.defineProperty(target, name, {
    configurable: true,
    enumerable: found?.enumerable ?? false,
    get() {
      const value = assigned && !found?.set ? assigned.value : reads.quietly(read)
      if (assigned && isOfLayer) return value
      const view = onRead(value)
      if (last?.value !== value) last = { value, view }
      return last?.view
    },
    set(value: unknown) {
      assigned = { value }
      found?.set?.call(target, value)
    },
  })
}

function describe(target: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name)
    if (found !== undefined) return found
  }
  return undefined
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

/** A view of an object that calls `note` for each read of a member. */
function recording(
  reads: Reads,
  value: unknown,
  note: (name: string, member: unknown) => void,
): unknown {
  // Node reads the bytes of a view of memory without the traps of a Proxy.
  if (!isObject(value) || ArrayBuffer.isView(value)) return value
  const own = new Set<string | symbol>()
  const see = (target: object, name: string | symbol): unknown => {
    const member: unknown = reads.quietly(() => Reflect.get(target, name))
    // Members that each object has are no fields.
    const isOfAll = name in Object.prototype && member === Reflect.get(Object.prototype, name)
    const isOwn = Object.hasOwn(target, name)
    if (isOfAll || (name === 'constructor' && !isOwn)) return member
    // A function or a class that a layer has put there is data.
    if (isOwn || typeof member !== 'function') {
      if (typeof name === 'string' && !own.has(name)) note(name, member)
      return member
    }
    if (Array.isArray(target)) note(String(name), member)
    // Methods work on the object itself, so that a layer's own reads do not count.
    return (...args: unknown[]) => {
      const result = reads.quietly(() => Reflect.apply(member, target, args))
      if (name === 'get' && !own.has(String(args[0]))) note(String(args[0]), result)
      return result
    }
  }
  return new Proxy(value, {
    get: see,
    has: (target, name) => see(target, name) !== undefined || Reflect.has(target, name),
    getOwnPropertyDescriptor(target, name) {
      see(target, name)
      return Reflect.getOwnPropertyDescriptor(target, name)
    },
    set(target, name, member) {
      own.add(name)
      return Reflect.set(target, name, member)
    },
  })
}
