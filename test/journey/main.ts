// `npm run journey`: what one warm request of each path costs. With `--list PATH`, the functions
// that it executes, by file. With `--heap`, its bytes of heap.

import { parseArgs } from 'node:util'
import { findRedis } from '../harness/find-redis.ts'
import { startRedis } from '../harness/redis-server.ts'
import { BUDGETS, HEAP_BUDGETS } from './budgets.ts'
import { type Counted, measure, measureHeap } from './measure.ts'

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { heap: { type: 'boolean', default: false }, list: { type: 'string' } },
  })
  const { source } = await findRedis()
  await using redis = await startRedis({ source })
  if (values.heap) {
    console.log(heapTable(await measureHeap(redis.url, Object.keys(BUDGETS))))
    return 0
  }
  const counted = await measure(redis.url)
  if (values.list === undefined) {
    console.log(table(counted))
    return 0
  }
  const path = counted.get(values.list)
  if (path === undefined) {
    console.error(`no path "${values.list}"; choose one of: ${[...counted.keys()].join(', ')}`)
    return 1
  }
  console.log(list(path))
  return 0
}

function table(counted: ReadonlyMap<string, Counted>): string {
  const rows = [...counted].map(([name, counts]) => {
    const cells = (['files', 'functions', 'promises'] as const).map((what) =>
      cell(counts[what], BUDGETS[name]?.[what]),
    )
    return `| ${name} | ${cells.join(' | ')} |`
  })
  return ['| path | files | functions | promises |', '|---|---:|---:|---:|', ...rows].join('\n')
}

function heapTable(bytes: ReadonlyMap<string, number>): string {
  const rows = [...bytes].map(([name, each]) => `| ${name} | ${cell(each, HEAP_BUDGETS[name])} |`)
  return ['| path | heap bytes |', '|---|---:|', ...rows].join('\n')
}

function cell(count: number, most: number | undefined): string {
  return most === undefined ? String(count) : `${count} (of ${most})`
}

/** A line for each folder with its numbers of files and functions, then its files. */
function list({ executed }: Counted): string {
  const folders = new Map<string, Map<string, string[]>>()
  for (const each of executed) {
    const [, folder = '', file = '', name = ''] = /^(.*)\/([^/]*\.js) (.*)@\d+$/.exec(each) ?? []
    const files = folders.get(folder) ?? new Map<string, string[]>()
    folders.set(folder, files.set(file, [...(files.get(file) ?? []), name]))
  }
  const lines = [...folders].flatMap(([folder, files]) => [
    `${folder}  ${files.size} files, ${[...files.values()].flat().length} functions`,
    ...[...files].map(([file, names]) => `  ${file}: ${names.join(', ')}`),
  ])
  return lines.join('\n')
}
