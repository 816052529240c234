// One hidden class for all requests of Express, and one for all responses.

const FIRST = Symbol('stampede.first')
const SECOND = Symbol('stampede.second')

/**
 * Express changes the prototype of each request and response. V8 (11, Node 20) then makes a new hidden class for every
 * property that is added, for this one object, and none of its caches knows it: each access is looked up anew. An
 * object that lost a property, other than the last, is a dictionary, and all dictionaries of one prototype share a class.
 */
export function shareShape(object: object): void {
  const own = object as Record<symbol, unknown>
  own[FIRST] = own[SECOND] = undefined
  Reflect.deleteProperty(object, FIRST)
  Reflect.deleteProperty(object, SECOND)
}
