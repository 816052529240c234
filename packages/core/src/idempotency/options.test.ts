import { METHODS as NODE_METHODS } from 'node:http'
import { describe, expect, it } from 'vitest'
import { createHttpIdempotency } from '../http-idempotency.ts'
import { createStampede } from '../index.ts'
import { LONGEST_MS } from '../options.ts'
import { readIdempotencyOptions, readJobOptions } from './options.ts'

const scope = () => 'user-1'
/** Options as a caller without types may pass them. */
const read = (options: object = {}) => readIdempotencyOptions({ scope, ...options })

function refusal(make: () => unknown): string {
  try {
    make()
  } catch (error) {
    expect(error).toMatchObject({ name: 'StampedeError', code: 'ERR_STAMPEDE_OPTION' })
    return (error as Error).message
  }
  throw new Error('it was accepted')
}

const policy = {
  leaseMs: 30_000,
  retentionMs: 86_400_000,
  onLeaseExpired: 'takeover',
  waitMs: 0,
}

describe('the defaults of idempotency()', () => {
  it('are complete and frozen, and equal the list in this test', () => {
    const rules = read()
    expect(rules).toEqual({
      scope,
      required: expect.any(Function),
      methods: new Set(['POST', 'PATCH']),
      headers: ['idempotency-key'],
      strict: false,
      ...policy,
      onStoreError: 'reject',
      fingerprint: 'canonical',
      maxBodyBytes: 1024 * 1024,
      docsUrl: undefined,
    })
    expect(rules.required({})).toBe(true)
    expect(Object.isFrozen(rules)).toBe(true)
  })
})

describe('an option of idempotency()', () => {
  it('replaces the default', () => {
    const required = () => false
    const fingerprint = () => 1
    const rules = read({
      required,
      methods: ['post', 'DELETE'],
      headers: ['Idempotency-Key', 'X-Request-Key'],
      strict: true,
      leaseMs: 100,
      retentionMs: 1_000,
      onBusy: { waitMs: 5 },
      onLeaseExpired: 'uncertain',
      onStoreError: 'proceed',
      fingerprint,
      maxBodyBytes: 0,
      docsUrl: 'https://shop.test/docs?a=1',
    })
    expect(rules).toMatchObject({ required, fingerprint, strict: true, onStoreError: 'proceed' })
    expect(rules.methods).toEqual(new Set(['POST', 'DELETE']))
    expect(rules.headers).toEqual(['idempotency-key', 'x-request-key'])
    expect(rules).toMatchObject({
      leaseMs: 100,
      retentionMs: 1_000,
      onLeaseExpired: 'uncertain',
      waitMs: 5,
    })
    expect(rules.maxBodyBytes).toBe(0)
    expect(rules.docsUrl).toBe('https://shop.test/docs?a=1')
  })

  it('may be a wait of ten seconds', () => {
    expect(read({ onBusy: 'wait' })).toMatchObject({ waitMs: 10_000 })
    expect(read({ onBusy: 'reject' }).waitMs).toBe(0)
  })

  it('may make the key optional', () => {
    expect(read({ required: false }).required({})).toBe(false)
  })

  it('follows the same rules for jobs', () => {
    expect(readJobOptions('idempotent', {})).toEqual({ ...policy, maxBodyBytes: Infinity })
    expect(refusal(() => readJobOptions('idempotent', { retentionMs: 1 }))).toMatch(
      /^idempotent\.retentionMs: received 1; use/,
    )
  })
})

describe('the option scope', () => {
  it.each([undefined, null, 'user', 7, {}])('is rejected as %j, with an example', (value) => {
    expect(refusal(() => readIdempotencyOptions({ scope: value }))).toMatch(
      /^idempotency\.scope: .*: idempotency\(\{ scope: \(req\) => req\.user\.id \}\)$/,
    )
  })

  it('is required even without any options', () => {
    for (const options of [{}, undefined]) {
      expect(refusal(() => createHttpIdempotency(options as never))).toMatch(
        /^idempotency\.scope: received undefined; return the id of the caller/,
      )
    }
  })
})

describe('an invalid option value of idempotency()', () => {
  type Case = [name: string, value: unknown, fix: string]
  const cases = (name: string, fix: string, values: readonly unknown[]): Case[] =>
    values.map((value) => [name, value, fix])
  const numbers = (name: string, min: number, max: number, unit: string) =>
    cases(name, `use a whole number of ${unit} from ${min} to ${max}`, [
      min - 1,
      max + 1,
      min + 0.5,
      Number.NaN,
      '10',
      null,
      10n,
    ])

  it.each<Case>([
    ...numbers('leaseMs', 100, LONGEST_MS, 'milliseconds'),
    ...numbers('retentionMs', 1_000, LONGEST_MS, 'milliseconds'),
    ...numbers('maxBodyBytes', 0, 2 ** 40, 'bytes'),
    ...cases('strict', 'use true or false', ['yes', 1, null]),
    ...cases('required', 'use true, false or a function of', ['yes', 1, null]),
    ...cases('methods', 'use', ['POST', []]),
    ...cases('headers', 'use', ['Key', [], ['a b'], ['a:'], ['ä']]),
    ...cases('onBusy', "use one of 'reject', 'wait'", ['queue', 1, null, true]),
    ...cases('onLeaseExpired', "use one of 'takeover', 'uncertain'", ['run', 1, null]),
    ...cases('onStoreError', "use one of 'reject', 'proceed'", ['ignore', 1, null]),
    ...cases('fingerprint', "use one of 'canonical', 'bytes'", ['json', 1, null]),
    ...cases('docsUrl', 'use a URL', ['', 'a b', 'a>; rel="x"', 'a\r\nb', 'ä', 7, null]),
  ])('is rejected with the fix: %s: %s', (name, value, fix) => {
    const message = refusal(() => read({ [name]: value }))
    expect(message.startsWith(`idempotency.${name}: received `)).toBe(true)
    expect(message).toContain(fix)
  })

  it.each([
    [['POST', 'PST'], '[1]: received "PST"; there is no such method; did you mean POST?'],
    [['pach'], '[0]: received "pach"; there is no such method; did you mean PATCH?'],
    [['PO ST'], '[0]: received "PO ST"; there is no such method; did you mean POST?'],
    [['constructor'], "there is no such method; use method names: ['POST', 'PATCH']"],
    [['POST', ''], '[1]: received ""; use'],
    [[7], '[0]: received 7; use'],
  ])('is rejected for methods: %j, which would leave the route unprotected', (methods, message) => {
    expect(refusal(() => read({ methods }))).toContain(message)
  })

  it('is never reported for a method that Node supports', () => {
    expect(read({ methods: NODE_METHODS }).methods).toEqual(new Set(NODE_METHODS))
  })

  it('is rejected for a function for onLeaseExpired, with the values to use', () => {
    const message =
      /^idempotency\.onLeaseExpired: received function onLeaseExpired; use one of 'takeover', 'uncertain'/
    expect(refusal(() => read({ onLeaseExpired: () => 'takeover' }))).toMatch(message)
  })

  it('is rejected within onBusy, too', () => {
    const of = (onBusy: object) => refusal(() => read({ onBusy }))
    expect(of({ waitMs: -1 })).toMatch(/^idempotency\.onBusy\.waitMs: received -1; use/)
    expect(of({ wait: 1 })).toBe(
      'idempotency.onBusy.wait: received 1; there is no such option; did you mean waitMs?',
    )
    expect(of([])).toMatch(/pass an object of options/)
  })
})

describe('an unknown option of idempotency()', () => {
  it.each([
    ['lease', 'leaseMs'],
    ['retention', 'retentionMs'],
    ['header', 'headers'],
    ['onLeaseExpire', 'onLeaseExpired'],
    ['docUrl', 'docsUrl'],
    ['Strict', 'strict'],
  ])('%s is rejected with the hint %s', (name, meant) => {
    expect(refusal(() => read({ [name]: 1 }))).toContain(`did you mean ${meant}?`)
  })

  it.each([[null], ['x'], [[]], [7]])(
    'is rejected, as is %j in place of the options',
    (options) => {
      expect(refusal(() => readIdempotencyOptions(options))).toMatch(/pass an object of options/)
    },
  )
})

describe('the Stampede of idempotency()', () => {
  it('is rejected if it is not a Stampede', () => {
    for (const stampede of [null, {}, 'redis']) {
      expect(refusal(() => createHttpIdempotency({ scope, stampede: stampede as never }))).toMatch(
        /^idempotency\.stampede: received .*; pass what createStampede\(\) returned/,
      )
    }
  })

  it('is created if there is none', async () => {
    expect(createHttpIdempotency({ scope }).handle).toBeInstanceOf(Function)
  })

  it.each<[string, object]>([
    ['secret', { secret: 'hunter2' }],
    ['secret', { secret: 7_777_777 }],
    ['encryptionKeys', { encryptionKeys: ['k'.repeat(32), 'hunter2'] }],
  ])('does not print a weak %s in its error', (name, idempotency) => {
    const message = refusal(() => createStampede({ idempotency: idempotency as object }))
    expect(message).toBe(
      `createStampede.idempotency.${name}: received "(hidden)"; ` +
        "pass { secret: '…', encryptionKeys: ['…'] }, each with 32 characters or more, for example from `openssl rand -hex 32`",
    )
  })

  it.each(['', undefined])('names a missing variable if its secret is %o', (secret) => {
    const idempotency = { secret: secret as string }
    expect(refusal(() => createStampede({ idempotency }))).toContain('idempotency.secret')
  })

  it.each([
    'hunter2-hunter2-hunter2',
    { secretKey: 'hunter2-hunter2-hunter2' },
    { encryptionKeys: 'hunter2-hunter2-hunter2' },
  ])('does not print secrets that have a wrong form', (idempotency) => {
    const message = refusal(() => createStampede({ idempotency: idempotency as object }))
    expect(message).toContain('createStampede.idempotency')
    expect(message).not.toContain('hunter2')
  })
})
