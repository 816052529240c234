// TypeScript blocks of the docs, and the module that each becomes.

import { readFileSync } from 'node:fs'

export interface Block {
  /** `docs/guide/locks.md:14`: the page, and the line where the block opens. */
  readonly name: string
  readonly code: string
}

/** The blocks of a page that open with ```ts. */
export function blocksOf(root: URL, page: string): Block[] {
  const text = readFileSync(new URL(page, root), 'utf8')
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(({ index, 1: code = '' }) => ({
    name: `${page}:${text.slice(0, index).split('\n').length}`,
    code,
  }))
}

const IMPORT = /^import [\s\S]*? from '[^']+'.*$/gm

/** The port of a program that readers start several times. */
const ENV_PORT = 'Number(process.env.PORT ?? 3000)'

const SERVE_FASTIFY = 'await $1.ready()\nserve(createServer($1.routing).listen(0))'

/**
 * A module whose default export runs the code. Its servers listen on a free port and are given to
 * `serve`. Names that the code neither imports nor declares are globals (setting.ts).
 */
export function moduleOf({ name, code }: Block): string {
  const imports = [...code.matchAll(IMPORT)].map(([line]) => line)
  const body = code
    .replace(IMPORT, '')
    .replace(ENV_PORT, '3000')
    .replace(/^((?:const \w+ = )?)(\S.*)\.listen\((?:3000|9464)\)/gm, '$1serve($2.listen(0))')
    .replace(/^await (\w+)\.listen\(\{ port: 3000 \}\)/gm, SERVE_FASTIFY)
    .trim()
  return [
    `// ${name}`,
    ...imports,
    'export default async function snippet() {',
    body,
    '}',
    '',
  ].join('\n')
}
