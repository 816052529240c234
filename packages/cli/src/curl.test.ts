import { describe, expect, it } from 'vitest'
import { parseCurl } from './curl.ts'

const URL_A = 'https://shop.example/a'
const fieldsOf = (text: string) => parseCurl(text).headers.filter((each) => each !== 'accept: */*')

describe('parseCurl', () => {
  it('reads a command as Chrome copies it', () => {
    const text = `curl 'https://shop.example/search?q=caf%C3%A9' \\
      -H 'accept: text/html,application/xhtml+xml' \\
      -H 'accept-language: de-DE,de;q=0.9' \\
      -b 'lang=de; _ga=GA1.1' \\
      -H 'sec-ch-ua: "Chromium";v="140"' \\
      -H $'x-note: it\\'s \\u00e9' \\
      -H 'x-empty;' \\
      --compressed`
    expect(parseCurl(text)).toEqual({
      url: 'https://shop.example/search?q=caf%C3%A9',
      method: 'GET',
      headers: [
        'accept: text/html,application/xhtml+xml',
        'accept-encoding: deflate, gzip, br, zstd',
        'cookie: lang=de; _ga=GA1.1',
        'accept-language: de-DE,de;q=0.9',
        'sec-ch-ua: "Chromium";v="140"',
        "x-note: it's é",
        'x-empty: ',
      ],
      host: undefined,
      data: undefined,
      notes: [],
    })
  })

  it('reads the body of a QUERY', () => {
    const text = `curl -X QUERY -H 'content-type: application/json' -d '{"a":1}' ${URL_A}`
    expect(parseCurl(text)).toMatchObject({ method: 'QUERY', data: '{"a":1}' })
  })

  it.each([
    [`curl ${URL_A}`, 'GET'],
    [`curl -X DELETE ${URL_A}`, 'DELETE'],
    [`curl -Xput ${URL_A}`, 'PUT'],
    [`curl -sSI ${URL_A}`, 'HEAD'],
    [`curl -d a=1 ${URL_A}`, 'POST'],
    [`curl --data-raw $'{"a":"it\\'s\\n"}' ${URL_A}`, 'POST'],
    [`curl -d '' ${URL_A}`, 'POST'],
    [`curl --json '{}' ${URL_A}`, 'POST'],
    [`curl -F a=1 ${URL_A}`, 'POST'],
    [`curl -T file ${URL_A}`, 'PUT'],
    [`curl -G -d a=1 ${URL_A}`, 'GET'],
    [`curl -X GET -d a=1 ${URL_A}`, 'GET'],
  ])('finds the method of %s: %s', (text, method) => {
    expect(parseCurl(text)).toMatchObject({ method })
  })

  it('puts the data of -G into the query', () => {
    const url = (text: string) => parseCurl(text).url
    expect(url(`curl -G ${URL_A} -d a=1 --data-urlencode 'q=a&b c'`)).toBe(
      `${URL_A}?a=1&q=a%26b%20c`,
    )
    expect(url(`curl -G '${URL_A}?x=1#top' -d a=1`)).toBe(`${URL_A}?x=1&a=1`)
    expect(url(`curl -G ${URL_A}`)).toBe(URL_A)
  })

  it('gives a GET with a body its length, because such a request bypasses the cache', () => {
    expect(fieldsOf(`curl -X GET -d 'a=é' ${URL_A}`)).toContain('content-length: 4')
  })

  it.each([
    ['-A me', 'user-agent: me'],
    ['-e https://a.example/', 'referer: https://a.example/'],
    ['-u ann:secret', 'authorization: Basic YW5uOnNlY3JldA=='],
    ['--oauth2-bearer t', 'authorization: Bearer t'],
    ['-r 0-99', 'range: bytes=0-99'],
    ["-H 'X-A: 1' -H 'x-a: 2'", 'x-a: 1, 2'],
    ["-b a=1 -b 'c=2'", 'cookie: a=1; c=2'],
    ["-b a=1 -H 'Cookie: c=2'", 'cookie: c=2'],
  ])('turns %s into the field %s', (args, field) => {
    expect(fieldsOf(`curl ${args} ${URL_A}`)).toEqual([field])
  })

  it.each(['^"', '^ a', 'a^'])('takes the text %s in a field of a bash command', (value) => {
    expect(fieldsOf(`curl ${URL_A} -H 'x-re: ${value}'`)).toEqual([`x-re: ${value}`])
  })

  it('removes a field whose value is left out', () => {
    expect(parseCurl(`curl -H 'Accept:' ${URL_A}`).headers).toEqual([])
  })

  it('takes the field Host apart, and a URL without a scheme as http', () => {
    expect(parseCurl("curl -H 'Host: shop.example' 127.0.0.1:3000/a")).toMatchObject({
      url: 'http://127.0.0.1:3000/a',
      host: 'shop.example',
    })
  })

  it('ignores options that do not change the request, and commands after a pipe', () => {
    const text = `$ curl -skL -m 5 -o out --max-time 3 -w '%{http_code}' --http2 ${URL_A} | jq .`
    expect(parseCurl(text)).toMatchObject({ url: URL_A, method: 'GET', headers: ['accept: */*'] })
  })

  it('has a note for each file that it does not read', () => {
    expect(parseCurl(`curl -b jar.txt -d @body.json ${URL_A}`).notes).toEqual([
      expect.stringContaining('file body.json'),
      expect.stringContaining('file jar.txt'),
    ])
  })

  it.each([
    ['wget https://shop.example/', 'begin with curl'],
    ['', 'begin with curl'],
    ['curl', 'no URL'],
    [`curl ${URL_A} ${URL_A}`, 'several URLs'],
    ["curl 'https://shop.example/", 'quotation mark'],
    ['curl ^"https://shop.example/^"', 'copy the one for bash'],
    ['curl https://shop.example/ ^\n -H ^"a: 1^"', 'copy the one for bash'],
  ])('refuses %s: %s', (text, problem) => {
    expect(() => parseCurl(text)).toThrow(problem)
  })
})
