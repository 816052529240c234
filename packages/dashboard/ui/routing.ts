// The address of a view: a part after `#`, so that it works below any path.

import { useEffect, useState } from 'preact/hooks'

export type Address =
  | { readonly page: 'fleet' | 'locks' | 'purge' }
  | { readonly page: 'key'; readonly key: string }

function addressIn(hash: string): Address {
  const [, page = '', rest = ''] = /^#\/(\w*)\/?(.*)$/s.exec(hash) ?? []
  if (page === 'key') return { page, key: decoded(rest) }
  return { page: page === 'locks' || page === 'purge' ? page : 'fleet' }
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
