// The request methods that Node parses. Core does not import node:http, so it has its own list.

/**
 * Common methods come first. For a mistyped method, an error suggests the most similar name. If
 * several names are equally similar, it suggests the first of them.
 */
export const METHODS: readonly string[] = [
  ...['POST', 'PATCH', 'PUT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'QUERY'],
  ...['ACL', 'BIND', 'CHECKOUT', 'COPY', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY'],
  ...['MKCALENDAR', 'MKCOL', 'MOVE', 'NOTIFY', 'PROPFIND', 'PROPPATCH', 'PURGE', 'REBIND'],
  ...['REPORT', 'SEARCH', 'SOURCE', 'SUBSCRIBE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE'],
]
