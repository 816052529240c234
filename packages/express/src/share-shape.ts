// A workaround that gives all requests of Express one hidden class, and all responses another.

/** A property of every event emitter. Others are added after it, so it is not the last one. */
const EARLY = '_events'

/**
 * Makes V8 store the object as a dictionary. Express changes the prototype of each request and
 * response. V8 (11, Node 20) then makes a new hidden class per object for each property that is
 * added, so no property access is cached. All dictionaries of one prototype share a hidden class.
 * An object becomes a dictionary if a property other than the last is deleted. The deleted property
 * is set again at once.
 */
export function shareShape(object: object): void {
  if (!Object.hasOwn(object, EARLY)) return
  const value: unknown = Reflect.get(object, EARLY)
  Reflect.deleteProperty(object, EARLY)
  Reflect.set(object, EARLY, value)
}
