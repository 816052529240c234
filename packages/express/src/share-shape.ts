// One hidden class for all requests of Express, and one for all responses.

/** An own property of every event emitter, and not its last. */
const EARLY = '_events'

/**
 * Express changes the prototype of each request and response. V8 (11, Node 20) then makes a new hidden
 * class for every property that is added, for this one object, and each access is looked up anew. An
 * object that lost a property, other than the last, is a dictionary. All dictionaries of one prototype
 * share a class. The property is put back at once.
 */
export function shareShape(object: object): void {
  if (!Object.hasOwn(object, EARLY)) return
  const value: unknown = Reflect.get(object, EARLY)
  Reflect.deleteProperty(object, EARLY)
  Reflect.set(object, EARLY, value)
}
