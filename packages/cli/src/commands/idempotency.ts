// `stampede idempotency`: lists idempotency keys, shows one, and settles one.

import type { Stampede } from '@stampede/core'
import type { IdempotencyStore } from '@stampede/core/store'
import { type Command, flag, type Invocation, text, type Values } from '../command.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { type Fleet, openFleet } from '../fleet.ts'
import { bytes, type Columns, duration, pairs, table } from '../format.ts'
import { type Database, openDatabase } from '../postgres.ts'
import { readAll } from '../scan.ts'

type IdempotencyOperator = Stampede['idempotency']
type IdempotencyRecord = NonNullable<Awaited<ReturnType<IdempotencyOperator['inspect']>>>

type Inspection = NonNullable<Awaited<ReturnType<IdempotencyStore['inspect']>>>

export const idempotency: Command = {
  summary: 'Lists idempotency keys, shows one, or settles one.',
  usage: 'stampede idempotency list | show KEY | settle KEY [options]',
  options: [
    ['--scope TEXT', 'the scope of the key'],
    ['--job', 'KEY is that of a job (stampede.idempotent)'],
    ['--state NAME', 'list: only running, lapsed, completed, released or uncertain keys'],
    ['--release', 'settle: the next request runs the handler'],
    ['--status CODE', 'settle: the status that repeats get, with --body'],
    ['--body TEXT', 'settle: the body that repeats get; JSON is sent as JSON'],
    ['--value JSON', 'settle: the result of the job that repeats get'],
    ['--force', 'settle: also a running or completed key'],
    ['--postgres', 'the keys are in PostgreSQL at DATABASE_URL, not in Redis'],
    ['--schema NAME', 'with --postgres: the schema of postgresStore; default stampede'],
    ['DATABASE_URL', 'environment variable: the URL for --postgres'],
    ['STAMPEDE_SECRET', 'environment variable: idempotency.secret of createStampede'],
    ['STAMPEDE_ENCRYPTION_KEYS', 'environment variable: the encryptionKeys, separated by commas'],
  ],
  run,
}

async function run(invocation: Invocation): Promise<ExitCode> {
  const [action = 'list', key, ...more] = invocation.names
  if (!['list', 'show', 'settle'].includes(action) || more.length > 0) {
    throw new UsageError('use idempotency list, idempotency show KEY or idempotency settle KEY')
  }
  if ((key === undefined) !== (action === 'list')) {
    throw new UsageError(key === undefined ? `${action}: name a key` : 'list takes no key')
  }
  const ref = key === undefined ? '' : readRef(key, invocation.values)
  const answer = action === 'settle' ? readAnswer(invocation.values) : undefined
  await using server = await open(invocation)
  if (action === 'list') return await list(server, invocation)
  if (action === 'show') return await show(server, ref, invocation)
  return await settle(server, ref, answer, invocation)
}

/** The server with the keys. */
function open({ values, settings, terminal }: Invocation): Promise<Fleet | Database> {
  const schema = text(values, 'schema')
  if (flag(values, 'postgres'))
    return openDatabase(settings, terminal.env.DATABASE_URL, schema ?? 'stampede')
  if (schema !== undefined) throw new UsageError('--schema needs --postgres')
  return openFleet(settings)
}

type Ref = Parameters<IdempotencyOperator['inspect']>[0]
type Answer = Parameters<IdempotencyOperator['resolve']>[1]

const STATES: readonly string[] = ['running', 'lapsed', 'completed', 'released', 'uncertain']

async function list(server: Fleet | Database, { values, terminal }: Invocation): Promise<ExitCode> {
  const wanted = text(values, 'state')
  if (wanted !== undefined && !STATES.includes(wanted)) {
    throw new UsageError(`--state: received ${wanted}; use one of ${STATES.join(', ')}`)
  }
  const records = await readAll(server, 'idempotency', terminal, async (record) => {
    const found = await server.store.idempotency.inspect(record)
    if (found === undefined || (wanted !== undefined && found.state !== wanted)) return undefined
    // The frames of all keys together may be larger than the memory.
    const { frame, ...known } = found
    return { record, ...known, frameBytes: frame?.byteLength ?? 0 }
  })
  terminal.print({ records }, () =>
    records.length === 0 ? ['No key is stored.'] : table(records, COLUMNS),
  )
  return EXIT.ok
}

const COLUMNS: Columns<Omit<Inspection, 'frame'> & { readonly record: string }> = {
  'RECORD (HASH OF THE KEY)': ({ record }) => record,
  STATE: ({ state }) => state,
  ATTEMPT: ({ attempt }) => String(attempt),
  AGE: ({ ageMs }) => duration(ageMs),
  'LEASE LEFT': ({ leaseForMs }) => (leaseForMs > 0 ? duration(leaseForMs) : '-'),
  'KEPT FOR': ({ keepForMs }) => duration(keepForMs),
  STEPS: ({ steps }) => steps.join(', '),
}

async function show(
  { stampede }: Fleet | Database,
  ref: Ref,
  { terminal }: Invocation,
): Promise<ExitCode> {
  const found = await stampede.idempotency.inspect(ref)
  if (found === undefined) {
    const why = 'No record: the key was not used, has expired, or has another scope or secret.'
    terminal.print({ record: null }, () => [why])
    return EXIT.found
  }
  terminal.print({ record: asJson(found) }, () => linesOf(found))
  return EXIT.ok
}

function asJson({ response, ...known }: IdempotencyRecord): object {
  if (response === undefined) return known
  const { body, ...head } = response
  return { ...known, response: { ...head, bodyBytes: body?.byteLength ?? null } }
}

function linesOf(found: IdempotencyRecord): string[] {
  const { state, attempt, fence, leaseForMs, ageMs, keepForMs, steps, response, value } = found
  const body = response?.body === undefined ? 'no body stored' : bytes(response.body.byteLength)
  return pairs([
    ['state', state],
    ['attempt', String(attempt)],
    ['age', duration(ageMs)],
    ['lease', leaseForMs > 0 ? `${duration(leaseForMs)} left` : undefined],
    ['kept for', duration(keepForMs)],
    ['steps', steps.length > 0 ? steps.join(', ') : undefined],
    ['response', response && `${response.status}, ${body}`],
    ['value', value === undefined ? undefined : JSON.stringify(value)],
    ['fence', String(fence)],
  ])
}

async function settle(
  { stampede }: Fleet | Database,
  ref: Ref,
  answer: Answer | undefined,
  { values, terminal }: Invocation,
): Promise<ExitCode> {
  const options = { force: flag(values, 'force') }
  const reply =
    answer === undefined
      ? await stampede.idempotency.release(ref, options)
      : await stampede.idempotency.resolve(ref, answer, options)
  terminal.print({ reply }, () => [SETTLED[reply]])
  return reply === 'settled' ? EXIT.ok : EXIT.found
}

const SETTLED = {
  settled: 'The key is settled.',
  absent: 'No record: the key was not used, has expired, or has another scope or secret.',
  refused: 'Refused: an attempt runs or has completed. --force settles the key all the same.',
}

function readRef(key: string, values: Values): Ref {
  const scope = text(values, 'scope')
  if (flag(values, 'job')) return scope === undefined ? key : { job: key, scope }
  if (scope === undefined) throw new UsageError('add --scope, or --job if KEY is that of a job')
  return { key, scope }
}

/** Undefined: release the key. */
function readAnswer(values: Values): Answer | undefined {
  const [status, body, value] = ['status', 'body', 'value'].map((name) => text(values, name))
  const ways = [flag(values, 'release'), status !== undefined, value !== undefined]
  if (ways.filter(Boolean).length !== 1) {
    throw new UsageError('settle: use exactly one of --release, --status CODE and --value JSON')
  }
  if (body !== undefined && status === undefined) throw new UsageError('--body needs --status')
  if (value !== undefined) return { value: readJson('--value', value) }
  if (status === undefined) return undefined
  return { status: Number(status), ...(body !== undefined && bodyOf(body)) } as Answer
}

function readJson(option: string, json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    throw new UsageError(`${option}: received ${json}; use JSON, such as '{"id":7}' or '"text"'`)
  }
}

/** The body stays as it is, because JavaScript would round its large numbers. */
function bodyOf(body: string): object {
  const type = isJson(body) ? 'application/json' : 'text/plain'
  return { body, headers: { 'content-type': `${type}; charset=utf-8` } }
}

function isJson(body: string): boolean {
  try {
    return typeof JSON.parse(body) === 'object'
  } catch {
    return false
  }
}
