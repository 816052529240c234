// Handlers that read a host, query, caller or body that a client can spell in more than one way.
// @ts-check

/** The user that logged in, by connection. @type {WeakMap<object, string>} */
const logins = new WeakMap()

/** @type {Record<string, import('./apps.mjs').Target>} */
export const KEY_TARGETS = {
  /** Cuts the port off the host, as most apps do for absolute links. */
  'prints Host': {
    handler: (req) => ({ body: `//${String(req.headers.host).split(':')[0]}/app.js` }),
  },
  /** The framework trusts X-Forwarded-Host, but the handler reads Host itself. */
  'prints Host behind a proxy': {
    trustProxy: true,
    handler: (req) => ({ body: `//${req.headers.host}/app.js` }),
  },
  'prints X-Forwarded-Host behind a proxy': {
    trustProxy: true,
    handler: (req) => ({ body: `//${req.headers['x-forwarded-host']}/app.js` }),
  },
  'redirects to its own host': {
    handler: (req) => {
      const host = req.headers[':authority'] ?? req.headers.host
      if (host === 'shop.test') return { body: 'page' }
      return { status: 301, headers: { Location: `http://shop.test${req.url}` } }
    },
  },
  /** URLSearchParams skips a leading `?`. */
  'reads the id of a query': {
    options: { query: ['id'] },
    handler: (req) => ({ body: `id ${new URLSearchParams(queryOf(req)).get('id')}` }),
  },
  'reads what is behind the last ?': {
    options: { query: { ignore: ['utm'] } },
    handler: (req) => ({
      body: `id ${new URLSearchParams(String(req.url).split('?').at(-1)).get('id')}`,
    }),
  },
  'prints the first parameter': {
    handler: (req) => ({ body: String([...new URLSearchParams(queryOf(req))][0]) }),
  },
  'prints each field': {
    handler: (req) => ({ body: JSON.stringify(req.headers) }),
  },
  'prints each field, for any tenant': {
    options: { authorization: { ignore: ['X-Tenant-Id'] } },
    handler: (req) => ({ body: JSON.stringify(req.headers) }),
  },
  /** JSONP, as res.jsonp sends it. */
  'calls the callback of the query': { options: { query: ['id'] }, handler: jsonp },
  'calls the callback of the query, which is in the key': {
    options: { query: ['id', 'callback'] },
    handler: jsonp,
  },
  'ignores cookies and credentials': {
    options: { cookies: 'ignore', authorization: 'ignore' },
    handler: () => ({ body: 'page' }),
  },
  'says nothing of the cache': {
    options: { cacheStatus: false },
    handler: () => ({ body: 'page' }),
  },
  /** An open redirect: the client chooses the Location. */
  'redirects to where a POST says': { handler: redirecting },
  'redirects to where a POST says, which purges nothing': {
    options: { invalidateOn: 'never' },
    handler: redirecting,
  },
  /** NTLM logs in a connection: later requests on it have no Authorization. */
  'greets the login of a connection': {
    handler: (req) => {
      const { authorization } = req.headers
      if (authorization !== undefined) logins.set(req.socket, authorization)
      return { body: `hello ${logins.get(req.socket)}` }
    },
  },
  'greets the login of a connection behind a proxy': {
    trustProxy: true,
    handler: (req) => ({ body: `hello ${req.headers.authorization}` }),
  },
  'greets the client certificate': {
    handler: (req) => ({ body: `hello ${subjectOf(req)}` }),
  },
  'greets the client certificate, which is in the key': {
    options: { identity: (/** @type {any} */ native) => subjectOf(native.req ?? native) },
    handler: (req) => ({ body: `hello ${subjectOf(req)}` }),
  },
  'greets everybody, with a certificate or without': {
    options: { authorization: { ignore: ['client-certificate'] } },
    handler: () => ({ body: 'hello' }),
  },
  'prints the name in the handshake': {
    handler: (req) => ({ body: `for ${/** @type {any} */ (req.socket).servername}` }),
  },
  'prints the body of a GET': {
    handler: async (req) => {
      const chunks = []
      for await (const chunk of req) chunks.push(chunk)
      return { body: `body: ${Buffer.concat(chunks)}` }
    },
  },
}

/** @param {import('node:http').IncomingMessage} req */
function jsonp(req) {
  return { body: `${new URLSearchParams(queryOf(req)).get('callback')}({})` }
}

/** @param {import('node:http').IncomingMessage} req */
function redirecting(req) {
  if (req.method === 'GET') return { body: 'page' }
  const next = String(new URLSearchParams(queryOf(req)).get('next'))
  return { status: 302, headers: { Location: next } }
}

/** @param {{ url?: string | undefined }} req */
function queryOf({ url = '' }) {
  const mark = url.indexOf('?')
  return mark === -1 ? '' : url.slice(mark + 1)
}

/** @param {any} req */
function subjectOf(req) {
  return String(req.socket.getPeerCertificate().subject?.CN)
}
