// JSON as a value that nobody can change: it is shared by everybody who asks.

/** Throws what JSON.parse throws. */
export function parseFrozen(json: Uint8Array): unknown {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()
  const root: unknown = JSON.parse(text)
  if (!isObject(root)) return root
  // With a stack of its own: JSON may be nested deeper, and arrays be longer, than calls can take.
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
