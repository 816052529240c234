// Cache poisoning by requests that a handler can tell apart: the attacker's response must not be
// stored under the victim's key.
import { expect, it } from 'vitest'
import { describeAttacks, get, METHOD, type RawResponse, raw, type Setting } from './setting.ts'

/** The attacker sends its request first, then the victim, then both once more. */
async function expectApart(
  open: Setting['open'],
  name: string,
  attack: readonly [path: string, ...lines: string[]],
  innocent: readonly [path: string, ...lines: string[]],
): Promise<void> {
  await using target = await open(name)
  const planted = await get(target.attacker, ...attack)
  await target.stored()
  const served = await get(target.victim, ...innocent)
  await target.stored()
  expect(served.body).not.toBe(planted.body)
  expect((await get(target.attacker, ...innocent)).body).toBe(served.body)
  expect((await get(target.victim, ...attack)).body).toBe(planted.body)
}

describeAttacks('a host with an unusual spelling', ({ open, framework }) => {
  it.each(['evil.test:80@shop.test', 'evil.test, shop.test', 'shop.test, evil.test', 'SHOP.test'])(
    'is not printed in the responses to other clients: Host: %s',
    (host) => expectApart(open, 'prints Host', ['/', `Host: ${host}`], ['/']),
  )

  it.each(['EVIL.test', 'other.test', 'SHOP.TEST'])(
    'is not printed in the responses to other clients when a proxy names the host: Host: %s',
    (host) =>
      expectApart(
        open,
        'prints Host behind a proxy',
        ['/', `Host: ${host}`, 'X-Forwarded-Host: shop.test'],
        ['/', 'X-Forwarded-Host: shop.test'],
      ),
  )

  it('is not printed in the responses to other clients when a proxy passes X-Forwarded-Host: SHOP.test', () =>
    expectApart(
      open,
      'prints X-Forwarded-Host behind a proxy',
      ['/', 'X-Forwarded-Host: SHOP.test'],
      ['/', 'X-Forwarded-Host: shop.test'],
    ))

  it('does not make other clients follow a redirect to their own URL', async () => {
    await using target = await open('redirects to its own host')
    const redirect = await get(target.attacker, '/', 'Host: SHOP.test')
    expect([redirect.status, redirect.headers.location]).toEqual([301, 'http://shop.test/'])
    const page = await get(target.victim, '/')
    expect([page.status, page.body]).toEqual([200, 'page'])
  })

  it('causes no miss for an ordinary client', async () => {
    await using target = await open(
      framework === 'node' ? 'prints Host' : 'prints Host behind a proxy',
    )
    const lines = framework === 'node' ? [] : ['X-Forwarded-Host: shop.test']
    for (const url of [target.attacker, target.attacker, target.victim]) {
      await get(url, '/', ...lines)
      await target.stored()
    }
    expect(await target.runs()).toBe(1)
  })
})

describeAttacks('a parameter behind a second ?', ({ open }) => {
  it.each(['/??id=evil', '/?utm=1&id=evil?', '/???id=evil', '/?a?id=evil'])(
    'does not change the response to requests without it: %s',
    async (path) => {
      await using target = await open('reads the id of a query')
      await get(target.attacker, path)
      expect((await get(target.victim, '/')).body).toBe('id null')
    },
  )

  it.each(['/?utm=1?id=evil', '/?utm?id=evil', '/??utm=1&?id=evil'])(
    'does not change the response to requests without it if the query option ignores other parameters: %s',
    async (path) => {
      await using target = await open('reads what is behind the last ?')
      expect((await get(target.attacker, path)).body).toBe('id evil')
      expect((await get(target.victim, '/')).body).toBe('id null')
    },
  )

  it.each([
    ['/??a=1&b=2', '/?b=2&?a=1'],
    ['/??a=1&a=2', '/?a=2&?a=1'],
  ])('is part of the key, so that %s differs from %s', (one, other) =>
    expectApart(open, 'prints the first parameter', [one], [other]),
  )
})

const CLAIMS = [
  ...['Forwarded: host=evil.test', 'X-Forwarded-Server: evil.test', 'X-Forwarded-Uri: /evil'],
  ...['X-Forwarded-Context: /evil', 'X-Original-URI: /evil', 'X-Script-Name: /evil'],
  ...['X-Original-Forwarded-Host: evil.test', 'X-Envoy-Original-Path: /evil'],
  ...['CF-Visitor: {"scheme":"evil"}', 'CloudFront-Forwarded-Proto: evil', 'X-ARR-SSL: evil'],
]

describeAttacks('a request field that claims another URL', ({ open }) => {
  it('is not printed in the responses to other clients, for each such field', async () => {
    await using target = await open('prints each field')
    for (const [n, line] of CLAIMS.entries()) {
      expect((await get(target.attacker, `/${n}`, line)).body, line).toContain('evil')
      expect((await get(target.victim, `/${n}`)).body, line).not.toContain('evil')
    }
  })
})

const CREDENTIALS = [
  ...['access-token', 'x-token', 'token', 'x-jwt', 'x-session-id', 'private-token'],
  ...['x-vault-token', 'x-shopify-access-token', 'ocp-apim-subscription-key', 'x-rapidapi-key'],
  ...['x-functions-key', 'x-ms-client-principal', 'x-forwarded-client-cert', 'x-client-cert'],
  ...['ssl-client-verify', 'ssl-client-subject-dn', 'tailscale-user-login', 'x-webauth-user'],
  ...['x-authenticated-userid', 'x-consumer-id', 'x-consumer-username', 'x-user-id', 'x-tenant-id'],
]

describeAttacks('a credential in a field other than Authorization', ({ open }) => {
  it('gets a response that other clients do not get, for each such field', async () => {
    await using target = await open('prints each field')
    for (const [n, name] of CREDENTIALS.entries()) {
      const alice = await get(target.attacker, `/${n}`, `${name}: alice`)
      expect(alice.headers['cache-status'], name).toContain('detail=authorization')
      expect((await get(target.victim, `/${n}`)).body, name).not.toContain('alice')
      expect((await get(target.victim, `/${n}`, `${name}: bob`)).body, name).toContain('bob')
    }
  })

  it('is ignored only if authorization.ignore names its field', async () => {
    await using target = await open('prints each field, for any tenant')
    const { body } = await get(target.attacker, '/', 'X-Tenant-Id: a')
    await target.stored()
    expect((await get(target.victim, '/', 'X-Tenant-Id: b')).body).toBe(body)
    const keyed = await get(target.attacker, '/', 'X-Tenant-Id: a', 'X-Api-Key: k')
    expect(keyed.headers['cache-status']).toContain('detail=authorization')
  })
})

describeAttacks('a login of the connection', ({ open }) => {
  it.each(['NTLM alice', 'Negotiate alice', 'ntlm alice'])(
    'prevents later responses on the connection from being shared: %s',
    async (authorization) => {
      await using target = await open('greets the login of a connection')
      const head = ['GET / HTTP/1.1', 'Host: shop.test']
      const { body } = await raw(target.attacker, [
        ...[...head, `Authorization: ${authorization}`, ''],
        ...[...head, 'Connection: close', '', ''],
      ])
      // Two responses: both are Alice's, and neither was stored.
      expect(body.match(/hello/g)).toHaveLength(2)
      expect(body).toContain('detail=connection-auth')
      expect((await get(target.attacker, '/')).body).toBe('hello undefined')
      await target.stored()
      expect((await get(target.victim, '/')).body).toBe('hello undefined')
      expect(await target.runs()).toBe(3)
    },
  )
})

describeAttacks(
  'a login of a connection that a trusted proxy uses for many clients',
  ({ framework, open }) => {
    const host = ['GET / HTTP/1.1', 'Host: shop.test']
    const clients: ReadonlyArray<readonly [string, (n: number) => string]> = [
      ['X-Forwarded-For', (n) => `X-Forwarded-For: 192.0.2.${n}`],
      ['X-Real-IP', (n) => `X-Real-IP: 192.0.2.${n}`],
      ['Forwarded', (n) => `Forwarded: for=192.0.2.${n}`],
    ]
    const schemes = ['NTLM x', 'Negotiate x', 'negotiate', ' nTLM\tx']
    const cases = clients.flatMap(([field, of]) =>
      schemes.map((scheme) => [field, scheme, of] as const),
    )
    // `raw` returns the first response, and all later ones as its body. The login itself has the
    // detail `authorization`.
    const bypasses = ({ headers, body }: RawResponse) =>
      `${headers['cache-status']} ${body}`.match(/detail=connection-auth/g)?.length
    // These requests are GETs, also if `get` sends a QUERY.
    it.skipIf(METHOD !== 'GET').each(cases)(
      'concerns only the client in %s that sent %s',
      async (_, scheme, of) => {
        await using target = await open('greets the login of a connection behind a proxy')
        const others = Array.from({ length: 20 }, (_, n) => [...host, of(n + 1), ''])
        others.unshift([...host, of(0), `Authorization: ${scheme}`, ''])
        others.push([...host, of(0), ''], [...host, 'Connection: close', '', ''])
        const answers = await raw(target.attacker, others.flat())
        // A front trusts no proxy. So the login concerns the whole connection.
        expect(bypasses(answers)).toBe(framework === 'node' ? 22 : 2)
        expect(await target.runs()).toBe(framework === 'node' ? 23 : 4)
        await target.stored()
        const { body: page, headers } = await get(target.victim, '/', of(30))
        expect(page).toBe('hello undefined')
        expect(headers['cache-status']).toContain(framework === 'node' ? 'fwd=' : 'hit')
      },
    )

    it.each(clients)('concerns all clients of a connection if it has no %s', async (_, of) => {
      await using target = await open('greets the login of a connection behind a proxy')
      const answers = await raw(target.attacker, [
        ...[...host, 'Authorization: NTLM alice', ''],
        ...[...host, of(1), ''],
        ...[...host, of(2), 'Connection: close', '', ''],
      ])
      expect(bypasses(answers)).toBe(2)
    })
  },
)
