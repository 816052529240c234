// Writes the CommonJS doors of a package: `dist/x.cjs` and `dist/x.d.cts` for each entry of
// `exports`. The packages are ES modules. Such a door loads the one ES module, so a process that
// uses both `import` and `require` has one copy. Runs in the folder of a package, after `tsc -b`.
// @ts-check
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'

/** @type {{ exports?: Record<string, { require?: { default: string } }> }} */
const { exports = {} } = JSON.parse(readFileSync('package.json', 'utf8'))
const doors = Object.values(exports).flatMap(({ require }) => (require ? [require.default] : []))

removeStale()
for (const door of doors) {
  const path = door.replace(/\.cjs$/, '')
  const module = `./${basename(path)}.js`
  writeFileSync(`${path}.cjs`, loader(module))
  writeFileSync(`${path}.d.cts`, types(`${path}.d.ts`, module))
}

/**
 * Jest replaces `require`, and its own cannot load ES modules before Node 24.9. Code that runs
 * outside the context of the test gets Node's. Jest before 27 does not know the prefix `node:`.
 * @param {string} module
 */
function loader(module) {
  return `'use strict'
if (process.env.JEST_WORKER_ID === undefined) module.exports = require('${module}')
else {
  const { createRequire } = require('vm').runInThisContext('process').getBuiltinModule('module')
  module.exports = createRequire(__filename)('${module}')
}
`
}

/**
 * The types of the ES module, under `resolution-mode`. Without it, a CommonJS file must not name
 * an ES module (TS1479, before TypeScript 5.8).
 * @param {string} file
 * @param {string} module
 */
function types(file, module) {
  const mode = "{ 'resolution-mode': 'import' }"
  const lines = [`type Door = typeof import('${module}', { with: ${mode} })`]
  const onlyTypes = []
  for (const [, isType, list = '', from = ''] of readFileSync(file, 'utf8').matchAll(
    /^export (type )?\{([^}]*)\} from '([^']+)'/gm,
  )) {
    for (const item of list.split(',').map((each) => each.trim())) {
      const name = item.replace(/^type /, '')
      if (name === '') continue
      if (isType || item !== name) onlyTypes.push(name)
      else lines.push(...value(name, join(dirname(file), from.replace(/\.ts$/, '.d.ts'))))
    }
  }
  if (onlyTypes.length > 0)
    lines.push(`export type { ${onlyTypes.join(', ')} } from '${module}' with ${mode}`)
  return `${lines.join('\n')}\nexport {}\n`

  /**
   * A value, and its type if it is a class. Type parameters keep their bounds.
   * @param {string} name
   * @param {string} declared
   */
  function value(name, declared) {
    const constant = `export declare const ${name}: Door['${name}']`
    const pattern = `^export declare (?:abstract )?class ${name}(?:<(.+?)>)? (?:\\w.* )?\\{$`
    const text = existsSync(declared) ? readFileSync(declared, 'utf8') : ''
    const found = new RegExp(pattern, 'm').exec(text)
    if (found === null) return [constant]
    const path = relative(dirname(file), declared).replace(/\.d\.ts$/, '.js')
    const from = `import('./${path}', { with: ${mode} })`
    const [, bounds] = found
    if (bounds === undefined) return [constant, `export type ${name} = ${from}.${name}`]
    const names = bounds.split(',').map((each) => each.trim().split(' ')[0])
    const left = bounds
      .replace(/ extends (\w+)/g, ` extends ${from}.$1`)
      .replace(/ = (\w+)(?=<)/g, ` = ${from}.$1`)
    return [constant, `export type ${name}<${left}> = ${from}.${name}<${names.join(', ')}>`]
  }
}

/** `tsc -b` keeps the output of a deleted source, and the tarball would have it. */
function removeStale() {
  for (const entry of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
    const source = entry.replace(/(\.d\.ts|\.js|\.cjs|\.d\.cts)(\.map)?$/, '')
    if (source === entry) continue
    if (entry.endsWith('.map') || !existsSync(join('src', `${source}.ts`)))
      rmSync(join('dist', entry))
  }
}
