// The smallest member: hands every request to ORIGIN_URL, without a cache. The harness's own tests
// use it. A fleet of real applications differs only in its listener.
// @ts-check
import { runMember } from './member.mjs'

const { ORIGIN_URL = '', MEMBER_INDEX } = process.env

await runMember({
  async listener(req, res) {
    const answer = await fetch(ORIGIN_URL + req.url)
    res.writeHead(answer.status, { 'x-member': String(MEMBER_INDEX) })
    res.end(await answer.text())
  },
  answer(message) {
    if (message === 'reject') void Promise.reject(new Error('nobody handles this'))
    else if (message === 'linger') setInterval(() => {}, 1_000)
    else if (message === 'throw') throw new Error('as asked')
    return { echo: message }
  },
})
