// Requests of users through the HTTP journey (`handleCached`), and purges by path and by route.
// Some responses are for all people. Others are about the caller, and say so in one of several
// ways, or do not need to, because the caller is in the key.

import { createHttpCache } from '@stampede/core/adapter'
import type { Member } from './member.ts'
import { LONGEST_ORIGIN_MS, longestMs, type Plan, STORE_BUDGET_MS, type VisitPlan } from './plan.ts'
import { failShare, type Scene, sleep } from './scene.ts'
import { type Page, SimExchange, type Visitor } from './sim-exchange.ts'

type HttpCache = ReturnType<typeof createHttpCache<Visitor>>

/**
 * `cookie`: about the caller, with a Set-Cookie as the only sign. `mixed`: sometimes for all,
 * sometimes about the caller. `me`: the caller is in the key. `tongue`: in the language of the
 * caller, as variants of one key.
 */
const AREAS = ['public', 'public', 'private', 'cookie', 'mixed', 'me', 'tongue', 'tongue'] as const
type Area = (typeof AREAS)[number]
const IDS = [0, 1] as const
const USERS = ['ann', 'bob', 'eve'] as const
const LANGUAGES = { ann: 'de', bob: 'en', eve: 'fr' } as const
const PURGE_SHARE = 0.04
/** Some responses name their lifetime, so that variants of one key live for different times. */
const MAX_AGES_S = [1, 4, 30]

interface Caches {
  readonly plain: HttpCache
  /** With the caller in the key. */
  readonly own: HttpCache
  /** With keys of the application, which purges name. */
  readonly keyed: HttpCache
}

const caches = new WeakMap<Member, Caches>()

export function visit(scene: Scene): void {
  const { random, plan } = scene
  const area = plan.onlyVariants ? 'tongue' : random.pick(AREAS)
  if (random.chance(PURGE_SHARE)) purgePath(scene, area)
  else ask(scene, area)
}

function ask(scene: Scene, area: Area): void {
  const { world, plan, member, random } = scene
  const { calls, freshness, privacy, kernel, figures } = world
  const path = `/${area}/${random.pick(IDS)}`
  const user = random.pick(USERS)
  const caches = cachesOf(member, plan.visits)
  const language = LANGUAGES[user]
  const call = calls.begin(member, `GET ${path}`, path, budgetMs(plan.visits))
  const askedAt = kernel.now
  let runs = 0
  // A stale entry in place of an error counts as requested when the app failed.
  let judgedAt = askedAt
  const app = () => {
    runs += 1
    return run(scene, area, path, user, language).catch((error) => {
      judgedAt = kernel.now
      throw error
    })
  }
  figures.visits += 1
  const exchange = new SimExchange(path, { user, path, language }, app, (got) => {
    calls.end(call)
    const body = Buffer.from(got.body ?? []).toString()
    if (runs === 0 && got.status === 200) figures.visitsFromCache += 1
    world.note(member.name, `${user} got ${got.status} ${path} ${body}`)
    privacy.got(member.name, user, path, got)
    privacy.spoke(member.name, user, path, language, got)
    const [, version] = /version=(\d+)/.exec(body) ?? []
    if (version !== undefined) {
      freshness.answered(member.name, path, judgedAt, Number(version))
      world.checkAge(member.name, path, askedAt, Number(version))
    }
  })
  if (random.chance(0.1)) {
    // A client that has left still gets a response, without a time limit.
    kernel.after(random.pick(plan.originMs), () => member.time.receive(() => exchange.leave()))
  }
  void caches[area === 'me' ? 'own' : area === 'tongue' ? 'keyed' : 'plain'].handle(exchange)
}

async function run(
  scene: Scene,
  area: Area,
  path: string,
  user: string,
  language: string,
): Promise<Page> {
  const { world, plan, member, random } = scene
  const { freshness, figures, kernel } = world
  const version = freshness.version(path)
  const isForAll = area === 'public' || area === 'tongue'
  const isOwn = area === 'mixed' ? random.chance(0.5) : !isForAll
  const fails = random.chance(failShare(kernel.now))
  figures.origin += 1
  world.note(member.name, `app of ${user} at ${path} says version=${version}`)
  await sleep(scene, random.pick(plan.originMs) * (0.5 + random.next() / 2))
  if (fails) throw new Error('the app failed')
  freshness.lives(path, version, longestMs(plan.visits), kernel.now)
  const headers: Array<[string, string]> = []
  if (isOwn && (area === 'private' || area === 'mixed')) {
    headers.push(['cache-control', random.pick(['private', 'no-store', 'private, max-age=60'])])
  }
  if (area === 'cookie') headers.push(['set-cookie', `sid=for=${user}; HttpOnly`])
  const isSpoken = area === 'tongue'
  if (isSpoken) headers.push(['vary', 'accept-language'])
  if (isSpoken && random.chance(0.3)) {
    headers.push(['cache-control', `max-age=${random.pick(MAX_AGES_S)}`])
  }
  const spoken = isSpoken ? `;lang=${language}` : ''
  const body = Buffer.from(`for=${isOwn ? user : '*'}${spoken};path=${path};version=${version}`)
  return { head: { status: 200, headers }, body }
}

function purgePath({ world, member, random }: Scene, area: Area): void {
  const { freshness, kernel, calls, figures } = world
  const path = `/${area}/${random.pick(IDS)}`
  const isKeyed = area === 'tongue' && random.chance(0.8)
  const isOne = isKeyed || random.chance(0.6)
  const soft = isKeyed && random.chance(0.2)
  const target = isKeyed ? { key: path } : isOne ? { path } : { route: `/${area}/:id` }
  const about = isOne ? [path] : IDS.map((id) => `/${area}/${id}`)
  const what = `purge ${JSON.stringify(target)}${soft ? ', soft' : ''}`
  const calledAt = kernel.now
  const versions = freshness.change(about)
  const call = calls.begin(member, what, path, STORE_BUDGET_MS)
  world.note(member.name, what)
  figures.purges += 1
  member.stampede.purge(target, { soft }).then(
    () => {
      calls.end(call)
      world.note(member.name, `${what} is done`)
      // Checked only for purges that Redis must keep.
      if (soft) return
      freshness.purged({ process: member.name, calledAt, versions, what }, kernel.now)
    },
    // Not acknowledged, so nothing was promised.
    () => calls.end(call),
  )
}

function cachesOf(member: Member, options: VisitPlan): Caches {
  const known = caches.get(member)
  if (known !== undefined) return known
  const { stampede } = member
  const made: Caches = {
    plain: createHttpCache<Visitor>({ stampede, ...options }),
    own: createHttpCache<Visitor>({ stampede, ...options, identity: ({ user }) => user }),
    keyed: createHttpCache<Visitor>({ stampede, ...options, key: ({ path }) => path }),
  }
  caches.set(member, made)
  return made
}

/** A wait for another request's run, whose response may turn out personal, and then an own run. */
function budgetMs({ waitMs, originTimeoutMs }: Plan['visits']): number {
  return waitMs + 2 * Math.max(originTimeoutMs, LONGEST_ORIGIN_MS) + STORE_BUDGET_MS
}
