// A list of what came back, how often, each with a bar: the most frequent first, and no more than there is room for.

import { whole } from './format.js'

/** How many lines the page has room for; the rest is summed up in the last one. */
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
  return [...all.slice(0, LINES - 1), ['others', rest]]
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
