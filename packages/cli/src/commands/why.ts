// `stampede why`: the key of a URL, its entry, and one sentence about the response that the next
// request gets.

import { readFile } from 'node:fs/promises'
import { buffer, text as textOf } from 'node:stream/consumers'
import { requestKey } from '@stampede/core/operator'
import { groupOf } from '@stampede/core/store'
import { type AskedRequest, namesToScan, REQUEST_OPTIONS, readRequest } from '../asked-key.ts'
import { type Command, type Invocation, list, text, type Values } from '../command.ts'
import { parseCurl } from '../curl.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { type Fleet, openFleet } from '../fleet.ts'
import { duration, printable } from '../format.ts'
import { asJson, asLines } from '../records.ts'
import { type EventView, eventsOf, readProcesses } from '../reports.ts'
import type { Terminal } from '../terminal.ts'
import { asJsonVariants, hasAny, lookFor, variantLines } from '../variants.ts'
import { answerOf } from '../why-answer.ts'

export const why: Command = {
  summary: 'Explains why a URL is, or is not, served from the cache.',
  usage: 'stampede why [QUERY] URL | --curl COMMAND [options]',
  options: [
    ['--data TEXT', 'the body of a QUERY; @FILE reads a file, @- reads stdin'],
    ['--curl COMMAND', 'a curl command in place of the URL, such as "Copy as cURL"; - reads stdin'],
    ...REQUEST_OPTIONS,
  ],
  run,
}

const MOST_EVENTS = 10

async function run({ names, values, settings, terminal }: Invocation): Promise<ExitCode> {
  const { request, method, notes } = await readAsked(names, values, terminal.stdin)
  const { url } = request
  const bypass = isCached(method) ? requestKey(request).bypass : 'method'
  await using fleet = await openFleet(settings)
  const processes = await readProcesses(fleet.store)
  const found = await lookFor(fleet, request, processes, namesToScan(values))
  const { records, record, variants } = found
  const events = eventsOf(processes, record.key)
  const other = record.info === undefined ? await otherScheme(fleet, request) : undefined
  const { prefix } = settings
  const answer = answerOf({ url, prefix, bypass, ...found, events, otherUrl: other })
  const outcomes = events.slice(0, MOST_EVENTS)
  const json = {
    ...{ url, bypass: bypass ?? null, records: records.map(asJson) },
    variants: variants && asJsonVariants(variants),
    ...{ outcomes, notes, answer },
  }
  terminal.print(json, () => [
    ...records.flatMap((each) => [...asLines(each), '']),
    ...(variants && hasAny(variants)
      ? ['Variants of this URL:', ...variantLines(variants).map(printable), '']
      : []),
    ...(outcomes.length > 0
      ? ['Last outcomes in the fleet:', ...outcomes.map(lineOf).map(printable), '']
      : []),
    ...notes.map((note) => printable(`Note: ${note}.`)),
    terminal.style('bold', printable(answer)),
  ])
  return EXIT.ok
}

interface Asked {
  readonly request: AskedRequest
  readonly method: string
  readonly notes: readonly string[]
}

/** The request of the arguments, or of a curl command among them. */
async function readAsked(
  names: readonly string[],
  values: Values,
  stdin: Terminal['stdin'],
): Promise<Asked> {
  const isQuery = names[0] === 'QUERY'
  const [url, ...more] = isQuery ? names.slice(1) : names
  const [command, data] = [text(values, 'curl'), text(values, 'data')]
  if ((command === undefined) === (url === undefined) || more.length > 0)
    throw new UsageError('name one URL, or give --curl')
  if (isQuery !== (data !== undefined))
    throw new UsageError('a QUERY needs --data, and only a QUERY has it')
  if (command === undefined) {
    const request = readRequest(url ?? '', values)
    if (data === undefined) return { request, method: 'GET', notes: [] }
    return { request: { ...request, body: await bodyOf(data, stdin) }, method: 'QUERY', notes: [] }
  }
  const curl = parseCurl(command === '-' ? await textOf(stdin) : command)
  const header = [...curl.headers, ...list(values, 'header')]
  const host = values.host ?? curl.host
  const request = readRequest(curl.url, { ...values, header, host })
  const body = curl.method === 'QUERY' ? Buffer.from(curl.data ?? '') : undefined
  return { ...curl, request: { ...request, body } }
}

async function bodyOf(data: string, stdin: Terminal['stdin']): Promise<Buffer> {
  if (!data.startsWith('@')) return Buffer.from(data)
  if (data === '@-') return buffer(stdin)
  return readFile(data.slice(1)).catch((error: Error) => {
    throw new UsageError(`--data: ${error.message}`)
  })
}

/** A HEAD is served from the entry of a GET. */
const isCached = (method: string): boolean => /^(?:GET|HEAD|QUERY)$/.test(method)

/** The URL with http instead of https, or the reverse, if something is stored for it. */
async function otherScheme({ store }: Fleet, request: AskedRequest): Promise<string | undefined> {
  const { url } = request
  const other = /^https/i.test(url)
    ? url.replace(/^https/i, 'http')
    : url.replace(/^http/i, 'https')
  const { key } = requestKey({ ...request, url: other })
  const infos = [key, groupOf(key)].map((each) => store.operator.inspect(each))
  return (await Promise.all(infos)).some((info) => info !== undefined) ? other : undefined
}

function lineOf({ at, type, process, fields }: EventView): string {
  const about = Object.entries(fields).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const facts = printable([process, ...about].join('  '))
  return `  ${duration(Date.now() - at).padStart(10)} ago  ${type}  ${facts}`
}
