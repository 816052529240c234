// A count of everything alive in this process: objects by class, contents of Maps and Sets,
// listeners, memory. Private fields are counted too, because the inspector finds them on the heap.
// @ts-check
import { Session } from 'node:inspector'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
/** @type {() => void} */
const gc = runInNewContext('gc')

const GROUP = 'census'

/** Runs once in the inspector, on all objects, because finding them takes long. */
const COUNT = `function () {
  const kinds = {}
  const tables = []
  for (const each of this) {
    let kind
    try {
      kind = Object.getPrototypeOf(each)?.constructor?.name
    } catch {}
    if (typeof kind !== 'string') continue
    kinds[kind] = (kinds[kind] ?? 0) + 1
    // The prototype of a subclass is an instance of Map, but its size throws.
    try {
      if ((each instanceof Map || each instanceof Set) && each.size >= 0) tables.push(each)
    } catch {}
  }
  const entries = tables.reduce((sum, { size }) => sum + size, 0)
  const largest = tables.sort((a, b) => b.size - a.size).slice(0, 12)
  const show = (each) => each.size + ', such as ' + String([...each.keys()].at(-1)).slice(0, 60)
  return { kinds, entries, largest: largest.map(show) }
}`

/**
 * Counts everything that is alive now.
 * @param {ReadonlyArray<import('node:events').EventEmitter>} emitters their listeners are counted
 */
export function census(emitters) {
  const session = new Session()
  session.connect()
  try {
    const found = count(session)
    const listeners = [process, ...emitters].map(listenersOf)
    const resources = countBy(process.getActiveResourcesInfo())
    gc()
    const { heapUsed, external } = process.memoryUsage()
    return { ...found, listeners, resources, bytes: heapUsed + external }
  } finally {
    session.disconnect()
  }
}

/**
 * Counts objects by class, the entries of all Maps and Sets, and the largest of these.
 * @param {Session} session
 */
function count(session) {
  const evaluate = { expression: 'Object.prototype', objectGroup: GROUP }
  const prototypeObjectId = post(session, 'Runtime.evaluate', evaluate).result.objectId
  const query = { prototypeObjectId, objectGroup: GROUP }
  const { objectId } = post(session, 'Runtime.queryObjects', query).objects
  const call = { objectId, functionDeclaration: COUNT, returnByValue: true }
  const { value } = post(session, 'Runtime.callFunctionOn', call).result
  post(session, 'Runtime.releaseObjectGroup', { objectGroup: GROUP })
  return value
}

/**
 * In the same thread, the reply is there at once.
 * @param {Session} session
 * @param {string} method
 * @param {object} params
 */
function post(session, method, params) {
  /** @type {any} */
  let reply
  session.post(method, params, (error, value) => {
    if (error) throw error
    reply = value
  })
  if (reply === undefined) throw new Error(`No reply to ${method}`)
  return reply
}

/** @param {Pick<import('node:events').EventEmitter, 'eventNames' | 'listenerCount'>} emitter */
function listenersOf(emitter) {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0)
}

/** @param {readonly string[]} names */
function countBy(names) {
  /** @type {Record<string, number>} */
  const counts = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
