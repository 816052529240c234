// The requests as dots on a canvas. A filled dot is a request that ran a query.

/** @param {HTMLCanvasElement} canvas */
export function createHerd(canvas) {
  let total = 0
  let filled = 0
  let answered = 0

  const draw = () => {
    const { clientWidth: width, clientHeight: height } = canvas
    const scale = window.devicePixelRatio || 1
    canvas.width = Math.round(width * scale)
    canvas.height = Math.round(height * scale)
    const pen = canvas.getContext('2d')
    pen.scale(scale, scale)
    const { step, columns } = fit(total, width, height)
    const { color: hue, caretColor: soft } = getComputedStyle(canvas)
    const radius = Math.min(step * 0.36, 7)
    for (let i = 0; i < total; i++) {
      const x = (i % columns) * step + step / 2
      const y = Math.floor(i / columns) * step + step / 2
      pen.beginPath()
      pen.arc(x, y, i < filled ? radius : radius * 0.55, 0, 2 * Math.PI)
      pen.fillStyle = i < filled ? hue : soft
      // A request without a response is faint. A request with a response but without a query is
      // plain.
      pen.globalAlpha = i < filled ? 1 : i < answered ? 0.6 : 0.25
      pen.fill()
    }
  }

  new ResizeObserver(draw).observe(canvas)
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
  return {
    show(next) {
      ;({ total, filled, answered } = next)
      draw()
    },
  }
}

/** The largest distance at which `total` dots fit. */
function fit(total, width, height) {
  let step = Math.min(Math.sqrt((width * height) / Math.max(total, 1)), 24)
  while (step > 1 && Math.floor(width / step) * Math.floor(height / step) < total) step -= 0.1
  return { step, columns: Math.max(Math.floor(width / step), 1) }
}
