// The address of a view: a part after `#`, so that it works below any path.

import { useEffect, useState } from 'preact/hooks'

const OTHERS = ['idempotency', 'locks', 'purge'] as const

export type Address =
  | { readonly page: 'fleet' | (typeof OTHERS)[number] }
  | { readonly page: 'key'; readonly key: string }

function addressIn(hash: string): Address {
  const [, page = '', rest = ''] = /^#\/(\w*)\/?(.*)$/s.exec(hash) ?? []
  if (page === 'key') return { page, key: decoded(rest) }
  return { page: OTHERS.find((other) => other === page) ?? 'fleet' }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export const keyHref = (key: string): string => `#/key/${encodeURIComponent(key.toWellFormed())}`

export function useAddress(): Address {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const follow = (): void => setHash(location.hash)
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return addressIn(hash)
}
