// A member whose build is another: some text of our files is another, before they run. APP: the script of the member. EDITS, as JSON:
// [file, from, to], where each has to be found. EDITED: which members, with commas; default all.
// @ts-check
import { register } from 'node:module'

const { APP = '', EDITS = '[]', EDITED, MEMBER_INDEX = '0' } = process.env
if (EDITED === undefined || EDITED.split(',').includes(MEMBER_INDEX)) {
  register('./rewrite.mjs', import.meta.url, { data: JSON.parse(EDITS) })
}
await import(APP)
