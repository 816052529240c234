// A reporter for `node --test`: one line of JSON for each test, with the titles of its suites
// before its own.

/** @param {AsyncIterable<{ type: string, data: any }>} events */
export default async function* reporter(events) {
  const titles = []
  for await (const { type, data } of events) {
    if (type === 'test:start') titles[data.nesting] = data.name
    if (type !== 'test:pass' && type !== 'test:fail') continue
    if (data.details?.type === 'suite' || data.skip || data.todo) continue
    const title = [...titles.slice(0, data.nesting), data.name].join(' ')
    const error = type === 'test:fail' ? String(data.details.error?.cause ?? '') : undefined
    yield `${JSON.stringify({ title, passed: type === 'test:pass', error })}\n`
  }
}
