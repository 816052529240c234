// The request methods that Node parses. Core does not import node:http, so it has its own list.

/**
 * The common ones come first: an error suggests the first of the names nearest to a mistyped one.
 */
export const METHODS: readonly string[] = [
  ...['POST', 'PATCH', 'PUT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'QUERY'],
  ...['ACL', 'BIND', 'CHECKOUT', 'COPY', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY'],
  ...['MKCALENDAR', 'MKCOL', 'MOVE', 'NOTIFY', 'PROPFIND', 'PROPPATCH', 'PURGE', 'REBIND'],
  ...['REPORT', 'SEARCH', 'SOURCE', 'SUBSCRIBE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE'],
]
