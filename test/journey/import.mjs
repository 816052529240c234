// Imports modules, and prints as JSON what Node loaded for them: our files, and its own modules.
// @ts-check
import { Session } from 'node:inspector'

/** @type {string[]} */
const files = []
const inspector = new Session()
inspector.connect()
inspector.on('Debugger.scriptParsed', ({ params: { url } }) => {
  if (/\/packages\/[\w-]+\/dist\//.test(url)) files.push(url)
})
inspector.post('Debugger.enable')
await Promise.all(process.argv.slice(2).map((name) => import(name)))
inspector.disconnect()
/** @type {readonly string[]} */
const loaded = Reflect.get(process, 'moduleLoadList')
const builtins = loaded
  .filter((each) => each.startsWith('NativeModule '))
  .map((each) => each.slice('NativeModule '.length))
console.log(JSON.stringify({ files, builtins }))
