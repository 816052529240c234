// @ts-check
// Embeds the scripts of lua/ and the statements of packages/postgres/sql/ into *.generated.ts. With
// --check, it writes nothing, and exits with 1 if one of these files is outdated.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const here = new URL('.', import.meta.url)

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

const sqlFolder = new URL('../packages/postgres/sql/', here)
const files = readdirSync(sqlFolder)
  .sort()
  .map((file) => {
    // An app that bundles the package would carry the comments.
    const comments = `-- Comments: packages/postgres/sql/${file} in the repository of Stampede.\n`
    const sql = comments + readFileSync(new URL(file, sqlFolder), 'utf8').replace(/^ *--.*\n/gm, '')
    return `  {
    id: '${file.replace('.sql', '')}',
    sql: ${JSON.stringify(sql)},
  },
`
  })

const migrations = `// Written by lua/embed.mjs from packages/postgres/sql/*.sql. Do not edit.

export const FILES: ReadonlyArray<{ readonly id: string; readonly sql: string }> = [
${files.join('')}]
`

const written = {
  'packages/redis/src/protocol/scripts.generated.ts': text,
  'packages/postgres/src/migrations.generated.ts': migrations,
}
for (const [path, content] of Object.entries(written)) {
  const target = new URL(`../${path}`, here)
  if (!process.argv.includes('--check')) writeFileSync(target, content)
  else if (readFileSync(target, 'utf8') !== content) {
    console.error(`${path} is outdated: run npm run lua`)
    process.exit(1)
  }
}
