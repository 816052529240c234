// The type of further arguments of a function that creates a middleware.

/**
 * Further arguments, of which there are none. TypeScript rejects `app.use(stampedeCache)` by them:
 * a mounted function gets `next`, which is not `never`. The type of the first parameter is not
 * enough, because a Koa context may have any property.
 */
export type Uncalled = readonly never[]
