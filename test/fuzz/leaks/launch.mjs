// Runs a TypeScript file of this folder on the sources, as the tests do: `node launch.mjs main.ts
// --seed 1`.
// With STAMPEDE_MUTATION ({ edits: [{ file, from, to }] }), the sources are changed while they
// load, never on disk. A script (`lua/commit-2.lua`) is changed where it is embedded.

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createViteServer } from 'vitest/node'
import { sourceAliases } from '../../../tools/sources.mjs'

process.env.NODE_ENV = 'test'
const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '../../..')
const [, , script = 'main.ts', ...args] = process.argv
const { STAMPEDE_MUTATION: mutation } = process.env
const edits = mutation === undefined ? [] : JSON.parse(mutation).edits

const server = await createViteServer({
  root,
  configFile: false,
  logLevel: 'error',
  appType: 'custom',
  server: { middlewareMode: true, watch: null, hmr: false, ws: false },
  optimizeDeps: { noDiscovery: true },
  // The sources use newer syntax than the oldest supported Node runs.
  oxc: { target: 'node20' },
  resolve: { alias: sourceAliases },
  ssr: { noExternal: [/^@stampede\//] },
  plugins: [{ name: 'mutate', enforce: 'pre', transform: mutate }],
})
const done = new Set()
let code = 1
try {
  const { main } = await server.ssrLoadModule(join('/test/fuzz/leaks', script))
  // An edit whose text is not found tests nothing.
  for (const edit of edits) if (!done.has(edit)) throw new Error(`never loaded: ${edit.file}`)
  code = await main(args)
} catch (error) {
  console.error(error)
} finally {
  await server.close()
}
process.exit(code)

function mutate(text, id) {
  let changed = text
  for (const edit of edits) {
    const [, script] = /^lua\/(.*)-\d\.lua$/.exec(edit.file) ?? []
    if (script !== undefined && id.endsWith('scripts.generated.ts')) {
      const embedded = new RegExp(`(name: '${script}',[^]*?source: )(".*")`)
      changed = changed.replace(
        embedded,
        (_, before, source) => before + JSON.stringify(edited(JSON.parse(source), edit)),
      )
    } else if (id.endsWith(edit.file)) changed = edited(changed, edit)
  }
  return changed
}

function edited(text, edit) {
  const { file, from, to } = edit
  const parts = text.split(from)
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} of: ${from}`)
  done.add(edit)
  return parts.join(to)
}
