// A workaround that gives all requests of Express one hidden class, and all responses another.

/**
 * A property of every event emitter. Node adds other properties later, so this one is not the last.
 */
const EARLY = '_events'

/**
 * Makes V8 store the object as a dictionary. Express changes the prototype of each request and
 * response. In V8 11 (Node 20), each property that is added later then creates a hidden class for
 * this object only, so no property access is cached. All dictionaries of one prototype share a
 * hidden class. An object becomes a dictionary if a property other than the last is deleted. So
 * this function deletes one and sets it again.
 */
export function shareShape(object: object): void {
  if (!Object.hasOwn(object, EARLY)) return
  const value: unknown = Reflect.get(object, EARLY)
  Reflect.deleteProperty(object, EARLY)
  Reflect.set(object, EARLY, value)
}
