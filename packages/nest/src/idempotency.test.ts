// Nest alone with idempotency keys: guards, pipes, filters and interceptors, on both platforms. The
// rest is in the contract (test/contracts/idempotency-adapters.versions.test.ts).

import {
  Body,
  type CallHandler,
  type CanActivate,
  ConflictException,
  Controller,
  HttpCode,
  type NestInterceptor,
  Post,
  UseGuards,
  UseInterceptors,
  VersioningType,
} from '@nestjs/common'
import type { Attempt } from '@stampede/core'
import { finalize, map, tap, timeout } from 'rxjs'
import { describe, expect, it, vi } from 'vitest'
import {
  controllerOf,
  createNestApp,
  listenOn,
  PLATFORMS,
  type Route,
} from '../../../test/harness/nest-apps.ts'
import { type HttpRequest, IdempotencyAttempt, Idempotent, idempotency } from './index.ts'

const scope = ({ headers }: HttpRequest) => String(headers['x-user'] ?? 'ada')
const ONCE = Idempotent({ scope })

async function post(url: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': 'k', ...headers },
    body: JSON.stringify(body),
  })
  const replayed = response.headers.get('idempotency-replayed')
  const { status, headers: fields } = response
  return { status, replayed, body: await response.text(), own: fields.get('x-own') }
}

describe.each(PLATFORMS)('@Idempotent on Nest with %s', (platform) => {
  async function start(routes: Record<string, Route>, decorators = [Controller()]) {
    const controllers = [controllerOf(decorators, routes)]
    return listenOn(await createNestApp(platform, { controllers }))
  }

  /** A handler that responds with the number of its runs and the body. */
  function counting(...decorators: MethodDecorator[]) {
    const route = {
      runs: 0,
      decorators: [Post('pay'), ...decorators],
      params: [Body()],
      run: (body: unknown): unknown => ({ run: ++route.runs, body }),
    }
    return route
  }

  it('takes the same key for another version of the handler as another request', async () => {
    const ofVersion = (version: string) => {
      const decorators = [Post('pay'), HttpCode(200), ONCE]
      return controllerOf([Controller({ version })], { pay: { decorators, run: () => version } })
    }
    const app = await createNestApp(platform, { controllers: ['1', '2'].map(ofVersion) })
    app.enableVersioning({ type: VersioningType.HEADER, header: 'X-Version' })
    await using server = await listenOn(app)
    const asked = ['1', '1', '2']
    const statuses = []
    for (const version of asked) {
      const { status, replayed } = await post(`${server.url}/pay`, {}, { 'x-version': version })
      statuses.push([status, replayed])
    }
    expect(statuses).toEqual([
      [200, null],
      [200, 'true'],
      [422, null],
    ])
  })

  it('uses no key for a request that a guard refuses', async () => {
    const guard: CanActivate = {
      canActivate: (context) => context.switchToHttp().getRequest().headers['x-pass'] === 'yes',
    }
    const pay = counting(ONCE, UseGuards(guard))
    await using app = await start({ pay })
    for (const _ of [1, 2]) expect((await post(`${app.url}/pay`, {})).status).toBe(403)
    expect((await post(`${app.url}/pay`, {}, { 'x-pass': 'yes' })).status).toBe(201)
  })

  it.each([
    ['an exception', () => new ConflictException('sold out'), 409],
    ['an unknown error', () => new Error('broken'), 500],
  ])('treats %s as a response of its status', async (_, errorOf, status) => {
    let runs = 0
    const run = async () => {
      runs += 1
      throw errorOf()
    }
    await using app = await start({ pay: { decorators: [Post('pay'), ONCE], run } })
    const got = [await post(`${app.url}/pay`, {}), await post(`${app.url}/pay`, {})]
    expect(got.map((each) => each.status)).toEqual([status, status])
    expect(got[1]?.body).toBe(got[0]?.body)
    expect({ runs, replayed: got[1]?.replayed }).toMatchObject(
      status === 409 ? { runs: 1, replayed: 'true' } : {},
    )
  })

  it('runs pipes inside of the attempt', async () => {
    let transforms = 0
    const pipe = {
      transform: (value: unknown) => {
        transforms += 1
        return value
      },
    }
    const pay = { ...counting(ONCE), params: [Body(pipe)] }
    await using app = await start({ pay })
    for (const _ of [1, 2]) expect((await post(`${app.url}/pay`, {})).status).toBe(201)
    expect(transforms).toBe(1)
  })

  it('gives the attempt to the handler as a parameter', async () => {
    const seen: unknown[] = []
    const pay = {
      decorators: [Post('pay'), Idempotent({ scope, required: false })],
      params: [IdempotencyAttempt()],
      run: (attempt: Attempt | undefined) => void seen.push(attempt?.number, attempt?.isRecovery),
    }
    await using app = await start({ pay })
    await post(`${app.url}/pay`, {})
    const without = await fetch(`${app.url}/pay`, { method: 'POST' })
    expect([without.status, await without.text()]).toEqual([201, ''])
    expect(seen).toEqual([1, false, undefined, undefined])
  })

  it('stores what outer interceptors made of the value, and completes them after a replay', async () => {
    const log: unknown[] = []
    const outer: NestInterceptor = {
      intercept: (_, handler: CallHandler) =>
        handler.handle().pipe(
          timeout(500),
          tap({ next: (value) => log.push(typeof value) }),
          map((data) => ({ data })),
          finalize(() => log.push('final')),
        ),
    }
    const pay = counting(UseInterceptors(outer), UseInterceptors(idempotency({ scope })))
    await using app = await start({ pay })
    for (const _ of [1, 2]) {
      expect((await post(`${app.url}/pay`, {})).body).toBe('{"data":{"run":1,"body":{}}}')
    }
    await vi.waitFor(() => expect(log).toEqual(['object', 'final', 'undefined', 'final']))
  })
})
