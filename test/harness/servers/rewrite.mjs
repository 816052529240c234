// Hooks of Node's module loader: replaces text in files as they are loaded. See other-build.mjs.
// @ts-check

/** @type {ReadonlyArray<readonly [file: string, from: string, to: string]>} */
let edits = []

/** @param {typeof edits} data */
export function initialize(data) {
  edits = data
}

/** @type {import('node:module').LoadHook} */
export async function load(url, context, nextLoad) {
  const loaded = await nextLoad(url, context)
  let { source } = loaded
  for (const [file, from, to] of edits.filter(([name]) => url.endsWith(name))) {
    const text = Buffer.from(/** @type {Uint8Array} */ (source ?? '')).toString()
    if (!text.includes(from)) throw new Error(`${file} does not say: ${from}`)
    source = text.replace(from, () => to)
  }
  return { ...loaded, source }
}
