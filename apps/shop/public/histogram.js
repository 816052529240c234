// List of responses by frequency, each with a bar. The last line sums up the rest.

import { whole } from './format.js'

/** Number of lines that fit. The last one sums up the rest. */
const LINES = 3

/**
 * @param {HTMLOListElement} list
 * @param {Record<string, number>} counts
 * @param {number} total
 * @param {(name: string) => string} label
 */
export function showHistogram(list, counts, total, label) {
  list.replaceChildren(...lines(counts).map(([name, count]) => bar(label(name), count, total)))
}

function lines(counts) {
  const all = Object.entries(counts).sort(([, a], [, b]) => b - a)
  if (all.length <= LINES) return all
  const rest = all.slice(LINES - 1).reduce((sum, [, n]) => sum + n, 0)
  return [...all.slice(0, LINES - 1), ['other', rest]]
}

function bar(label, count, total) {
  const item = document.createElement('li')
  const name = document.createElement('span')
  name.textContent = label
  name.title = label
  const number = document.createElement('b')
  number.textContent = whole(count)
  const mark = document.createElement('i')
  mark.style.setProperty('--share', `${(count / total) * 100}%`)
  item.append(name, number, mark)
  return item
}
