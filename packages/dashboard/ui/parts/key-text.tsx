// A key, which a client of the app may have chosen: no character of it changes the text around it.

import { keyHref } from '../routing.ts'

/** Characters that are invisible, or that change the direction of text. */
const UNSAFE = /([\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}])/u

export function Text({ text }: { text: string }) {
  const parts = text.split(UNSAFE)
  return (
    <bdi class="text">
      {parts.map((part, at) => (at % 2 === 0 ? part : <Code key={at} of={part} />))}
    </bdi>
  )
}

function Code({ of }: { of: string }) {
  const code = of.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')
  return <span class="code-point">U+{code}</span>
}

/** A link to the page of the key, unless a hash stands for it. */
export function KeyLink({ name, id }: { name: string; id: string }) {
  if (id.startsWith('~') || id === '') return <Text text={name} />
  return (
    <a class="key" href={keyHref(id)}>
      <Text text={name} />
    </a>
  )
}
