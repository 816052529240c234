// `stampede doctor --url`: asks a running app for one URL some times, and says why it is no hit.

import { adviceOn } from '@stampede/core/operator'
import { duration } from '../format.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

/** The third request shows a hit of an entry that was stored only after the second response. */
const MOST_REQUESTS = 3

interface Got {
  readonly status: number
  readonly location: string | null
  readonly age: string | null
  /** The field `Cache-Status`. Undefined: there is none. */
  readonly cacheStatus: string | undefined
}

/**
 * Sends at most three GET requests, one after the other, until one is a hit. Each may take
 * `timeoutMs`. Calls `report` with a finding for each, and then with the result.
 */
export async function askUrl(
  url: string,
  headers: Readonly<Record<string, string>>,
  timeoutMs: number,
  report: (finding: Finding) => void,
): Promise<void> {
  const all: Got[] = []
  for (let i = 1; i <= MOST_REQUESTS; i++) {
    const startedAt = performance.now()
    const got = await ask(url, headers, timeoutMs).catch((error: Error) => {
      report(
        fail(`request ${i}`, messageOf(error, timeoutMs), 'check the URL, and that the app runs'),
      )
    })
    if (got === undefined) return
    all.push(got)
    const took = duration(performance.now() - startedAt)
    const cache =
      got.cacheStatus === undefined ? 'no Cache-Status' : `Cache-Status: ${got.cacheStatus}`
    report(ok(`request ${i}`, `${got.status} in ${took}, ${cache}`))
    if (i === MOST_REQUESTS || isHit(got)) return report(resultOf(all, got))
  }
}

async function ask(url: string, headers: object, timeoutMs: number): Promise<Got> {
  const signal = AbortSignal.timeout(timeoutMs)
  const response = await fetch(url, { headers: { ...headers }, redirect: 'manual', signal })
  // The response is stored only if its body is complete.
  for await (const _ of response.body ?? []);
  return {
    status: response.status,
    location: response.headers.get('location'),
    age: response.headers.get('age'),
    cacheStatus: response.headers.get('cache-status') ?? undefined,
  }
}

function messageOf(error: Error, timeoutMs: number): string {
  if (error.name === 'TimeoutError') return `no complete response within ${timeoutMs} ms`
  const { cause } = error as { readonly cause?: NodeJS.ErrnoException }
  return cause?.message || cause?.code || error.message
}

/** RFC 9211 §2: a member for each cache, the one nearest to the handler first. */
function membersOf({ cacheStatus = '' }: Got): string[] {
  return cacheStatus.replace(/"[^"]*"/g, '""').split(',')
}

/** Without the field, a response with `Age` came from a cache. */
function isHit(got: Got): boolean {
  if (got.cacheStatus === undefined) return got.age !== null
  return membersOf(got).some((member) => /;\s*hit\b/.test(member))
}

/** `last`: the last of `all`. */
function resultOf(all: readonly Got[], last: Got): Finding {
  if (isHit(last)) {
    const where = all.length === 1 ? 'already stored' : `request ${all.length} is a hit`
    return ok('result', `the response is cached: ${where}`)
  }
  if (last.cacheStatus === undefined) {
    const page = `${PAGE}#no-cache-status`
    return fail(
      'result',
      'the cache did not see the request, or not its response',
      `mount the cache before the route, and set no cacheStatus: false; see ${page}`,
    )
  }
  // Later responses may say hit-for-miss, which follows from the first one.
  const reasons = all.map((got) => reasonOf(membersOf(got)[0] ?? ''))
  const reason =
    reasons.find((each) => each !== 'hit-for-miss' && each !== 'never-hit') ?? reasons.at(-1)
  const advice = adviceOn(reason ?? '')
  const message =
    reason === 'never-hit'
      ? 'each response is stored, and none is a hit'
      : `the response is not cached: ${reason}`
  const fix = `${advice?.fix ?? 'compare the field with the table'}; see ${advice?.page ?? PAGE}`
  const isRedirect = last.location !== null
  const target = isRedirect ? `; or ask for ${last.location}, to which it redirects` : ''
  return warn('result', message, fix + target)
}

const PAGE = 'docs/guide/why-nothing-is-cached.md'

/** The `detail` of a member. Without one: the reason for which the request was forwarded. */
function reasonOf(member: string): string {
  const [, detail] = /;\s*detail=([\w/-]+)/.exec(member) ?? []
  const [, fwd = 'unknown'] = /;\s*fwd=([\w-]+)/.exec(member) ?? []
  if (detail !== undefined) return detail
  if (fwd === 'request') return 'request-no-store'
  return /;\s*stored\b/.test(member) ? 'never-hit' : fwd
}
