// `stampede get`: the entry of a key or of a URL.

import {
  DESCRIBE,
  isUrl,
  keysOfName,
  namesToScan,
  REQUEST_OPTIONS,
  readRequest,
} from '../asked-key.ts'
import { type Command, flag, type Invocation, type Values } from '../command.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { type Fleet, openFleet } from '../fleet.ts'
import { printable } from '../format.ts'
import { asJson, asLines, type RecordView, readRecord } from '../records.ts'
import { readProcesses } from '../reports.ts'
import { asJsonVariants, hasAny, lookFor, type Variants, variantLines } from '../variants.ts'

export const get: Command = {
  summary: 'Shows what is stored under a key of getOrSet, or for a URL.',
  usage: 'stampede get KEY|URL [options]',
  options: [...REQUEST_OPTIONS, ['--body', 'print the body and nothing else']],
  run,
}

const HAS_VARIANTS = `This URL has variants. ${DESCRIBE}:`
const NEWLINE = 0x0a

async function run({ values, names, settings, terminal }: Invocation): Promise<ExitCode> {
  const [name, ...more] = names
  if (name === undefined || more.length > 0) throw new UsageError('name one key or URL')
  await using fleet = await openFleet(settings)
  const { records: all, variants } = await recordsOf(fleet, name, values)
  const found = all.filter(({ info }) => info !== undefined)
  const hasEntry = all.some(({ info }) => info?.frame !== undefined)
  const isBody = flag(values, 'body')
  const body = found.find(({ facts }) => facts !== undefined)?.facts?.body
  if (isBody && body !== undefined) {
    terminal.write(body)
    // Otherwise the prompt of the shell would be in the last line of the body.
    if (terminal.isInteractive && body.at(-1) !== NEWLINE) terminal.write('\n')
    return EXIT.ok
  }
  if (isBody && !terminal.json) return EXIT.found
  const shown = found.length > 0 ? found : all.slice(0, 1)
  const others = variants && hasAny(variants) ? variants : undefined
  const json = { records: found.map(asJson), variants: others && asJsonVariants(others) }
  terminal.print(json, () => [
    ...shown.flatMap((record, i) => [...(i > 0 ? [''] : []), ...asLines(record)]),
    ...(others ? ['', HAS_VARIANTS, ...variantLines(others).map(printable)] : []),
  ])
  return hasEntry && !isBody ? EXIT.ok : EXIT.found
}

interface Records {
  readonly records: readonly RecordView[]
  readonly variants?: Variants | undefined
}

async function recordsOf(fleet: Fleet, name: string, values: Values): Promise<Records> {
  if (!isUrl(name)) {
    return { records: await Promise.all(keysOfName(name).map((key) => readRecord(fleet, key))) }
  }
  const request = readRequest(name, values)
  const found = await lookFor(fleet, request, await readProcesses(fleet.store), namesToScan(values))
  return { records: [found.record], variants: found.variants }
}
