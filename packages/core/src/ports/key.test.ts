import { expect, it } from 'vitest'
import { readCacheOptions } from '../cache/cache-options.ts'
import { cacheKey, customKey } from '../cache/key.ts'
import type { RequestView } from './exchange.ts'
import { dataKey, shownKey } from './key.ts'
import { ALL, groupSubject, pathSubject, routeSubject, tagSubject } from './subject.ts'

const request = (target: string): RequestView =>
  ({
    method: 'GET',
    scheme: 'http',
    host: 'Shop.test:80',
    target,
    headers: { host: 'x' },
  }) as RequestView

const ODD = ['rates:eur', '', 'a\0b', '\ud800', '5:x', 'ü', 'j"', '=', 'http:GET 1:']

it.each(ODD.filter((key) => key !== ''))('shownKey returns the key %j of getOrSet', (key) => {
  expect(shownKey(dataKey(key))).toBe(key)
})

it.each(ODD)('shownKey returns the text %j of a key option', (text) => {
  expect(shownKey(customKey(text))).toBe(text)
})

it.each([
  ['/products?page=2&a=1', 'GET http://shop.test:80/products?a=1&page=2'],
  ['/', 'GET http://shop.test:80/'],
  ['/a:b/9:c', 'GET http://shop.test:80/a:b/9:c'],
])('shownKey returns method and URL for the response to %s', (target, shown) => {
  expect(shownKey(cacheKey(request(target), undefined, readCacheOptions(), ['accept']))).toBe(shown)
})

it.each([
  [tagSubject('product:42'), 'product:42'],
  [tagSubject('a\0b'), 'a\0b'],
  [groupSubject('http://shop.test', 'products'), 'http://shop.test products'],
  [pathSubject('/products/42', undefined), '/products/42'],
  [pathSubject('/products/42', 'Shop.test'), 'shop.test/products/42'],
  [routeSubject('/products/:id'), '/products/:id'],
  [ALL, '*'],
])('shownKey returns the target of a purge: %s', (subject, shown) =>
  expect(shownKey(subject)).toBe(shown),
)

it.each([
  ...['', 'http:GET ', 'http:GET x:y', 'http:GET -9:a', 'http:key ', 'unknown'],
  ...['d:j', 'd:j{bad', 'd:j{"toString":1}', 'd:jnull', 'http:key 5:j{bad'],
])('shownKey returns some text for the malformed key %j', (key) =>
  expect(typeof shownKey(key)).toBe('string'),
)
