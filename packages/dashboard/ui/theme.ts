// Light or dark: the setting of the system, until the reader chooses.

import { useEffect, useLayoutEffect, useState } from 'preact/hooks'

export type Theme = 'auto' | 'light' | 'dark'

const STORED = 'stampede-dashboard-theme'

function stored(): Theme {
  const value = localStorage.getItem(STORED)
  return value === 'light' || value === 'dark' ? value : 'auto'
}

const query = matchMedia('(prefers-color-scheme: dark)')

/** The choice, what it comes to, and the function that changes it. */
export function useTheme(): readonly [Theme, 'light' | 'dark', (theme: Theme) => void] {
  const [theme, setTheme] = useState(stored)
  const [isDark, setDark] = useState(query.matches)
  useEffect(() => {
    const follow = (): void => setDark(query.matches)
    query.addEventListener('change', follow)
    return () => query.removeEventListener('change', follow)
  }, [])
  const shown = theme === 'auto' ? (isDark ? 'dark' : 'light') : theme
  // Before the charts read the colours.
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = shown
    localStorage.setItem(STORED, theme)
  }, [theme, shown])
  return [theme, shown, setTheme]
}
