// Mutations of admission, of the key, and of the choice of a variant.

import { drop, type Edit, type Mutation, SOURCE } from './mutation.ts'

const SAME_SELECTION: Edit = {
  file: SOURCE.vary,
  from: 'if (!vary.every(([name, value]) => selectField(name, headers) === value)) return false',
  to: 'void vary',
}

export const KEYING: readonly Mutation[] = [
  drop('Vary: * is ignored', SOURCE.vary, "if (name === '*' || !FIELD_NAME", 'if (!FIELD_NAME'),
  drop(
    'only the first line of Vary is parsed',
    SOURCE.vary,
    "headerValues(headers, 'vary'))",
    "headerValues(headers, 'vary').slice(0, 1))",
  ),
  { name: 'an entry of another Vary selection is used', edits: [SAME_SELECTION] },
  drop(
    'an entry of another Vary selection is used for a HEAD',
    SOURCE.handle,
    'if (!selects(entry, request.headers)) return',
    "if (request.method !== 'HEAD' && !selects(entry, request.headers)) return",
  ),
  drop(
    'an entry of another Vary selection is served for an error',
    SOURCE.respond,
    '|| !selects(entry, request.headers)) return undefined\n  if (!isAcceptableOnError',
    ') return undefined\n  if (!isAcceptableOnError',
  ),
  {
    name: 'responses with Vary: Cookie or Authorization are stored, and the selection is not compared',
    edits: [
      SAME_SELECTION,
      {
        file: SOURCE.storable,
        from: "if (vary.includes('cookie') && !isKeyed(config, 'cookie')) return 'vary-cookie'",
        to: '',
      },
      {
        file: SOURCE.storable,
        from: "if (vary.includes('authorization') && !isKeyed(config, 'authorization'))\n    return 'vary-authorization'",
        to: '',
      },
    ],
  },
  drop(
    'requests with Authorization do not bypass',
    SOURCE.admit,
    "if (headers.authorization !== undefined) return 'authorization'",
  ),
  drop('a client certificate is ignored', SOURCE.admit, 'hasClientCertificate === true', 'false'),
  drop('a login of the connection is ignored', SOURCE.admit, 'hasLogin === true', 'false'),
  drop(
    'an HTTP/2 body without a framing field is ignored',
    SOURCE.admit,
    "if (hasBody === true) return 'request-body'",
  ),
  {
    name: 'a body with a framing field is ignored',
    edits: [
      {
        file: SOURCE.admit,
        from: "if (headers['transfer-encoding'] !== undefined) return 'request-body'",
        to: '',
      },
      {
        file: SOURCE.admit,
        from: 'if (length !== undefined && !/^0+$/.test(length)) return',
        to: 'if (length === null) return',
      },
    ],
  },
  drop(
    'requests with Cookie do not bypass',
    SOURCE.admit,
    "=== '' ? undefined : 'cookie'",
    '=== null ? undefined : undefined',
  ),
  drop(
    'keyed cookies are not in the key',
    SOURCE.key,
    "if (typeof config.cookies === 'object') variant",
    "if (typeof config.cookies === 'number') variant",
  ),
  drop(
    'the identity is not in the key',
    SOURCE.key,
    'if (config.identity !== undefined) {',
    'if (config.identity === null) {',
  ),
  drop(
    'headers of the vary option are not in the key',
    SOURCE.key,
    'union(config.vary, learnedVary)',
    'union([], learnedVary)',
  ),
  drop(
    'parts of the key have no separators',
    SOURCE.key,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: text of a source
    'return `${text.length}:${text}`',
    'return text',
  ),
  drop(
    'special characters of callers are not escaped in the key',
    'core/src/ports/key.ts',
    '.test(text) ?',
    '.test("") ?',
  ),
  drop(
    'the host is not in the key',
    SOURCE.key,
    'field(host.toLowerCase())',
    "field(host === '' ? '' : '-')",
  ),
  drop('the query is not in the key', SOURCE.key, 'queryPart(target.slice(mark + 1), rule)', "'?'"),
  drop(
    'parameters of one name are sorted by their values',
    SOURCE.key,
    'named.sort((a, b) => (a.base < b.base ? -1 : Number(a.base > b.base)))',
    'named.sort((a, b) => (a.text < b.text ? -1 : 1))',
  ),
  drop(
    'a coded body without Vary is shared with all requests',
    SOURCE.storable,
    "return [...vary, 'accept-encoding'].sort()",
    'return vary',
  ),
  drop(
    'requests with credentials in fields other than Authorization do not bypass',
    SOURCE.admit,
    "if (!ignored.includes(name) && !isKeyed(config, name)) return 'authorization'",
  ),
  drop(
    'a field name for a credential is missing',
    'core/src/http/credential-fields.ts',
    'entitlement|tenant|consumer',
    'entitlement|consumer',
  ),
  drop(
    'the host is in the key without its original spelling',
    SOURCE.key,
    'hostPart(request) + addressPart(request)',
    'addressPart(request)',
  ),
  drop(
    'X-Forwarded-Host is compared without regard to case',
    SOURCE.key,
    'value === host.toLowerCase()',
    'value.toLowerCase() === host.toLowerCase()',
  ),
  drop('a query with a second ? is sorted', SOURCE.key, " || raw.includes('?')"),
  drop(
    'fields in which a client claims a host are not in the key',
    SOURCE.key,
    'hostPart(request) + addressPart(request)',
    'hostPart(request)',
  ),
  drop(
    'a rewritten URL is not in the key',
    SOURCE.key,
    'if (request.rewritten !== undefined) variant',
    'if (request.rewritten === null) variant',
  ),
]
