// Numbers on a command line: `0-3,7`.

/** The numbers are ascending. */
export function inRanges(numbers: readonly number[]): string {
  const parts: string[] = []
  for (let i = 0; i < numbers.length; ) {
    let end = i
    while (numbers[end + 1] === (numbers[end] as number) + 1) end += 1
    parts.push(end === i ? `${numbers[i]}` : `${numbers[i]}-${numbers[end]}`)
    i = end + 1
  }
  return parts.length === 0 ? 'none' : parts.join(',')
}

export function fromRanges(text: string): number[] {
  if (text === 'none') return []
  return text.split(',').flatMap((part) => {
    const [, from, to = from] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? []
    if (from === undefined) throw new RangeError(`${part}: write numbers as 0-3,7, or none`)
    return Array.from({ length: Number(to) - Number(from) + 1 }, (_, i) => Number(from) + i)
  })
}
