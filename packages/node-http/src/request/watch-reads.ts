// Records which parts of a request an app reads, and which data of layers in front of the cache.
// The option `audit` uses this in development. The recording does not change what the app reads.

import { IncomingMessage, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'

/** Properties that Node and the frameworks set, and that hold no more than the key has. */
const KNOWN: ReadonlySet<string> = new Set([
  ...Object.keys(new IncomingMessage(new Socket())),
  ...['app', 'baseUrl', 'body', 'captures', 'cookies', 'ctx', 'id', 'log', 'matched', 'next'],
  ...['originalUrl', 'params', 'query', 'raw', 'rawBody', 'req', 'request', 'res', 'respond'],
  ...['response', 'route', 'router', 'routerName', 'routerPath', 'secret', 'signedCookies'],
])
/** Holders of data: a read of the holder alone is no read of the data. */
const HOLDERS: ReadonlySet<string> = new Set(['session', 'state', 'locals'])
/** Members that session middlewares read themselves. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(['cookie', 'changed', 'deleted', 'isNew'])

/** The parts that a handler has read so far: the argument of `OriginObserver.onReads`. */
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

  /** `holder` has the member `name`, and needs no text of its own. */
  note(log: Set<string>, name: string, holder: string = name): void {
    if (this.#isOver || this.#quiet > 0) return
    log.delete(holder)
    log.add(name)
  }

  /** Records reads of the cookies and of the layers' properties of a request or context. */
  watch(target: object, label: string): void {
    for (const name of ['cookies', 'signedCookies']) this.watchMembers(target, name, this.cookies)
    const own = Object.keys(target).filter((name) => !KNOWN.has(name) && !name.startsWith('_'))
    const inherited = ['session', 'user'].filter((name) => name in target)
    for (const name of new Set([...own, ...inherited])) this.watchLayer(target, name, label)
  }

  watchMembers(target: object, name: string, log: Set<string>): void {
    watchProperty(this, target, name, (member) => this.note(log, member.toLowerCase()))
  }

  /** Records reads of a property that a layer has set. A value of the handler is no input. */
  watchLayer(target: object, name: string, label: string): void {
    const path = `${label}.${name}`
    const onRead = (): void => this.note(this.layers, path)
    const onMember = (member: string, value: unknown): void => {
      if (value === undefined || OWN_MEMBERS.has(member)) return
      this.note(this.layers, `${path}.${member}`, path)
    }
    watchProperty(this, target, name, onMember, HOLDERS.has(name) ? () => {} : onRead)
  }
}

/** Starts the recording. `holder` is the object with the parsed query. */
export function watchReads(req: IncomingMessage, res: ServerResponse, holder: object = req): Reads {
  const reads = new Reads()
  for (const name of ['headers', 'headersDistinct']) reads.watchMembers(req, name, reads.headers)
  reads.watchMembers(holder, 'query', reads.query)
  reads.watch(req, 'req')
  watchProperty(reads, req, 'rawHeaders', () => reads.note(reads.layers, 'req.rawHeaders'))
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

/**
 * Replaces a property by a getter that returns a view of its value. With `onRead`, it is the
 * property of a layer until the app assigns another value.
 */
function watchProperty(
  reads: Reads,
  target: object,
  name: string,
  onMember: (name: string, value: unknown) => void,
  onRead?: () => void,
): void {
  const found = describe(target, name)
  const read = (): unknown => (found?.get ? found.get.call(target) : found?.value)
  let assigned: { readonly value: unknown } | undefined
  let last: { readonly value: unknown; readonly view: unknown } | undefined
  Object.defineProperty(target, name, {
    configurable: true,
    enumerable: found?.enumerable ?? false,
    get() {
      const value = assigned && !found?.set ? assigned.value : reads.quietly(read)
      if (assigned && onRead) return value
      if (value !== undefined) onRead?.()
      if (last?.value !== value) last = { value, view: recording(reads, value, onMember) }
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

const plain = new WeakMap<object, object>()

/** The object that a recording view wraps. Reads of this object are not recorded. */
export function unwatched<T extends object>(value: T): T {
  return (plain.get(value) as T | undefined) ?? value
}

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
    // Members of Object.prototype, such as `toString`, are no fields.
    const isInherited = name in Object.prototype && !Object.hasOwn(target, name)
    if (typeof name === 'symbol' || isInherited) return member
    if (typeof member !== 'function') {
      if (!own.has(name)) note(name, member)
      return member
    }
    if (Array.isArray(target)) note(name, member)
    // Methods work on the object itself, so that a layer's own reads do not count.
    return (...args: unknown[]) => {
      const result = reads.quietly(() => Reflect.apply(member, target, args))
      if (name === 'get' && !own.has(String(args[0]))) note(String(args[0]), result)
      return result
    }
  }
  const view = new Proxy(value, {
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
  plain.set(view, value)
  return view
}
