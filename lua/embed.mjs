// @ts-check
// Writes the scripts of lua/ into packages/redis/src/protocol/scripts.generated.ts. With --check,
// it writes nothing, and exits with 1 if that file is outdated.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const here = new URL('.', import.meta.url)
const target = new URL('../packages/redis/src/protocol/scripts.generated.ts', here)

const scripts = readdirSync(here)
  .filter((file) => file.endsWith('.lua'))
  .sort()
  .map((file) => {
    const match = /^([a-z-]+)-(\d+)\.lua$/.exec(file)
    if (!match) throw new Error(`lua/${file}: name it verb-noun-<keys>.lua`)
    const source = readFileSync(new URL(file, here), 'utf8')
    const name = match[1].replace(/-(.)/g, (_, letter) => letter.toUpperCase())
    const sha1 = createHash('sha1').update(source).digest('hex')
    return `export const ${name}: Script = {
  name: '${match[1]}',
  keys: ${match[2]},
  sha1: '${sha1}',
  source: ${JSON.stringify(source)},
}
`
  })

const text = `// Written by lua/embed.mjs from lua/*.lua. Do not edit.

export interface Script {
  readonly name: string
  readonly keys: number
  readonly sha1: string
  readonly source: string
}

${scripts.join('\n')}`

if (process.argv.includes('--check')) {
  const present = readFileSync(target, 'utf8')
  if (present !== text) {
    console.error('packages/redis/src/protocol/scripts.generated.ts is outdated: run npm run lua')
    process.exit(1)
  }
} else {
  writeFileSync(target, text)
}
