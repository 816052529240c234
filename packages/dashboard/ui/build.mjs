// Builds the page of the dashboard into dist/ui: one script, one style sheet, index.html.

import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const UI = dirname(fileURLToPath(import.meta.url))
const OUT = join(UI, '../dist/ui')
const require = createRequire(import.meta.url)

const { output } = await build({
  input: join(UI, 'main.tsx'),
  platform: 'browser',
  tsconfig: join(UI, 'tsconfig.json'),
  transform: { target: 'es2022' },
  output: { format: 'esm', minify: true, comments: { legal: false } },
  write: false,
  logLevel: 'warn',
})
const script = output[0].code

const sheets = readdirSync(join(UI, 'styles')).filter((name) => name.endsWith('.css'))
const own = sheets.sort().map((name) => readFileSync(join(UI, 'styles', name), 'utf8'))
const style = [readFileSync(require.resolve('uplot/dist/uPlot.min.css'), 'utf8'), ...own]
  .join('\n')
  .replace(/\/\*[\s\S]*?\*\//g, '')
  .replace(/\s*\n\s*/g, '\n')
  .trim()

const named = (name, extension, text) =>
  `${name}-${createHash('sha256').update(text).digest('base64url').slice(0, 8)}.${extension}`
const files = {
  [named('app', 'js', script)]: script,
  [named('app', 'css', style)]: style,
  'icon.svg': readFileSync(join(UI, 'icon.svg'), 'utf8'),
}
const [scriptName, styleName] = Object.keys(files)
files['index.html'] = readFileSync(join(UI, 'index.html'), 'utf8')
  .replace('app.js', scriptName)
  .replace('app.css', styleName)

rmSync(OUT, { recursive: true, force: true })
mkdirSync(OUT, { recursive: true })
for (const [name, text] of Object.entries(files)) writeFileSync(join(OUT, name), text)

// The licences of the packages inside the script have to come with it.
const licences = ['preact', 'uplot'].map((name) => {
  const folder = dirname(require.resolve(`${name}/package.json`))
  return `${name}\n\n${readFileSync(join(folder, 'LICENSE'), 'utf8')}`
})
writeFileSync(join(OUT, '../ui-licences.txt'), licences.join('\n---\n\n'))
