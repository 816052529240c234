// The methods that a Node server can be sent; in core, which is also for what is no server, they are named here.

/** The most usual first: of those that are as near to a mistyped name, the first is suggested. */
export const METHODS: readonly string[] = [
  ...['POST', 'PATCH', 'PUT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'QUERY'],
  ...['ACL', 'BIND', 'CHECKOUT', 'COPY', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY'],
  ...['MKCALENDAR', 'MKCOL', 'MOVE', 'NOTIFY', 'PROPFIND', 'PROPPATCH', 'PURGE', 'REBIND'],
  ...['REPORT', 'SEARCH', 'SOURCE', 'SUBSCRIBE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE'],
]
