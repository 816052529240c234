// The control of the fault plan: idempotency keys as many apps write them. The record of a key is
// outside of the handler's transaction, and is taken over a second after its process stopped.
// @ts-check

const CLAIM = `
  insert into naive_keys as k (key, until) values ($1, clock_timestamp() + interval '1 s')
  on conflict (key) do update set until = excluded.until
  where k.response is null and k.until < clock_timestamp()
  returning key`

/** @param {import('pg').Pool} pool */
export function naiveIdempotency(pool) {
  return async function idempotency(/** @type {any} */ req, /** @type {any} */ res, next) {
    const key = req.get('idempotency-key')
    const claimed = await pool.query(CLAIM, [key])
    if (claimed.rows.length === 0) {
      const found = await pool.query('select response from naive_keys where key = $1', [key])
      const response = found.rows[0]?.response
      return response
        ? res.status(201).location(`/orders/${response.id}`).json(response)
        : res.status(409).json({})
    }
    const tx = await pool.connect()
    // A lost connection rejects the next query, which is enough.
    tx.on('error', () => {})
    await tx.query('begin')
    const json = res.json.bind(res)
    res.json = async (/** @type {any} */ body) => {
      try {
        if (res.statusCode !== 201) await tx.query('rollback')
        else {
          await tx.query('commit')
          await pool.query('update naive_keys set response = $2 where key = $1', [key, body])
        }
        tx.release()
        json(body)
      } catch {
        tx.release(true)
        res.status(500)
        json({ error: 'the transaction failed' })
      }
    }
    req.idempotency = { tx }
    next()
  }
}
