// `stampede get`: the entry of a key or of a URL.

import { requestKey } from '@stampede/core/operator'
import { isUrl, keysOfName, REQUEST_OPTIONS, readRequest } from '../asked-key.ts'
import { type Command, flag, type Invocation } from '../command.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { openFleet } from '../fleet.ts'
import { asJson, asLines, readRecord } from '../records.ts'

export const get: Command = {
  summary: 'Shows what is stored under a key of getOrSet, or for a URL.',
  usage: 'stampede get KEY|URL [options]',
  options: [...REQUEST_OPTIONS, ['--body', 'print the body and nothing else']],
  run,
}

const NEWLINE = 0x0a

async function run({ values, names, settings, terminal }: Invocation): Promise<ExitCode> {
  const [name, ...more] = names
  if (name === undefined || more.length > 0) throw new UsageError('name one key or URL')
  const keys = isUrl(name) ? [requestKey(readRequest(name, values)).key] : keysOfName(name)
  const fleet = await openFleet(settings)
  try {
    const all = await Promise.all(keys.map((key) => readRecord(fleet, key)))
    const found = all.filter(({ info }) => info !== undefined)
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
    terminal.print({ records: found.map(asJson) }, () =>
      shown.flatMap((record, i) => [...(i > 0 ? [''] : []), ...asLines(record)]),
    )
    return found.length > 0 && !isBody ? EXIT.ok : EXIT.found
  } finally {
    await fleet.close()
  }
}
