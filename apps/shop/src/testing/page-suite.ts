// Tests of the page's files, for both shops. Called by surface.test.ts.

import { describe, expect, it } from 'vitest'
import type { Opened } from './opened.ts'
import { request } from './request.ts'

export function pageSuite(at: () => Opened): void {
  describe('the page', () => {
    it('forbids inline content and other origins', async () => {
      const { headers, text } = await request(at().server).get('/').expect(200)
      expect(headers['content-type']).toBe('text/html; charset=utf-8')
      expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self'; /)
      expect(headers['content-security-policy']).not.toContain('unsafe')
      expect(text).not.toMatch(/ style=| on\w+=|<style|<script(?! type="module" src="\/)/)
    })

    it('serves every file it refers to, with its type', async () => {
      const { text } = await request(at().server).get('/')
      const paths = [...text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(
        ([, path]) => path as string,
      )
      for (const [path, page] of at().pages) {
        const { headers } = await request(at().server).head(path).expect(200)
        expect(headers['content-type']).toBe(page.headers['content-type'])
        const imports = String(page.body).matchAll(/from '\.\/([\w-]+\.js)'/g)
        paths.push(...Array.from(imports, ([, name]) => `/${name}`))
      }
      for (const path of paths) expect(at().pages.has(path), path).toBe(true)
      expect(paths.length).toBeGreaterThan(15)
    })
  })
}
