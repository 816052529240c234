// Drawing of a cup of tea from above, in the colour of the tea. The pattern of the rim shows its
// kind.

const SVG = 'http://www.w3.org/2000/svg'

/** Dashes of the painted ring, as parts of a circle of length 100. */
const RIMS = {
  green: '2 2',
  white: '100 0',
  oolong: '6 2.333',
  black: '0.6 2.734',
  dark: '8 1 1 1',
  herbal: '3 1 1 1',
}

/** @param {{ liquor: string, category: string }} tea */
export function cup({ liquor, category }) {
  const svg = element('svg', { class: 'cup', viewBox: '0 0 64 64', 'aria-hidden': 'true' })
  svg.append(
    element('circle', { class: 'saucer', cx: 32, cy: 32, r: 31 }),
    element('circle', {
      class: 'rim',
      cx: 32,
      cy: 32,
      r: 26.5,
      pathLength: 100,
      'stroke-width': 2.5,
      'stroke-dasharray': RIMS[category] ?? '100 0',
    }),
    element('circle', { class: 'rim', cx: 32, cy: 32, r: 21, 'stroke-width': 1 }),
    element('circle', { cx: 32, cy: 32, r: 19, fill: liquor }),
    element('path', { class: 'glint', d: 'M20 27a13 13 0 0 1 9-8', 'stroke-width': 2 }),
  )
  return svg
}

function element(name, attributes) {
  const node = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value))
  return node
}
