// A JSON parser whose result is frozen, because all callers of a key share one object.

/** Parses JSON and freezes all of it. Throws the error of `JSON.parse`. */
export function parseFrozen(json: Uint8Array): unknown {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()
  const root: unknown = JSON.parse(text)
  if (!isObject(root)) return root
  // A loop with its own stack, since deeply nested JSON would overflow the call stack.
  const pending = [root]
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    const members: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
    for (const member of members) if (isObject(member)) pending.push(member)
    Object.freeze(value)
  }
  return root
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
