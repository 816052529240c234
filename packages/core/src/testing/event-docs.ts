// The docstrings of events, which the guide repeats in a table.

/** Types and docstrings of an interface of events, in the style of the table: no full stop. */
export function occasionsIn(source: string): [type: string, occasion: string][] {
  const members = source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}'([\w.-]+)':/g)
  return [...members].map(([, text = '', type = '']) => {
    const sentence = text
      .replace(/\n \s*\*/g, ' ')
      .replace(/\s+/g, ' ')
      .trim()
    return [type, sentence[0]?.toLowerCase() + sentence.slice(1).replace(/\.$/, '')]
  })
}
