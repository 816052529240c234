// A member that runs a changed build: some text of our files is replaced before they run. APP: the
// script of the member. EDITS, as JSON: [file, from, to], where each text must be found. EDITED:
// the members to change, with commas; default all.
// @ts-check
import { register } from 'node:module'

const { APP = '', EDITS = '[]', EDITED, MEMBER_INDEX = '0' } = process.env
if (EDITED === undefined || EDITED.split(',').includes(MEMBER_INDEX)) {
  register('./rewrite.mjs', import.meta.url, { data: JSON.parse(EDITS) })
}
await import(APP)
