// JSON as a value that nobody can change: it is shared by everybody who asks.

/** Throws what JSON.parse throws. */
export function parseFrozen(json: Uint8Array): unknown {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()
  const root: unknown = JSON.parse(text)
  // With a stack of its own: JSON may be nested deeper, and arrays be longer, than calls can take.
  const pending = [root]
  while (pending.length > 0) {
    const value = pending.pop()
    if (typeof value !== 'object' || value === null) continue
    for (const child of Object.values(value)) pending.push(child)
    Object.freeze(value)
  }
  return root
}
