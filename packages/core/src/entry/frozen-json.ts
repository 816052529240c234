// A JSON parser whose result is frozen, because all callers of a key share one object.

/** Parses JSON and freezes all of it. Throws the error of `JSON.parse`. */
export function parseFrozen(json: Uint8Array): unknown {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()
  const root: unknown = JSON.parse(text)
  if (!isObject(root)) return root
  // A loop with its own stack, since deeply nested JSON would overflow the call stack.
  const pending = [root]
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (Array.isArray(value)) {
      for (const child of value) if (isObject(child)) pending.push(child)
    } else {
      for (const name of Object.keys(value)) {
        const child = value[name]
        if (isObject(child)) pending.push(child)
      }
    }
    Object.freeze(value)
  }
  return root
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
