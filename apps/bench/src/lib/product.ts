// The body that every server sends (2.3 kB of JSON), and the header fields of a hit of Stampede.

const REVIEWS = Array.from({ length: 10 }, (_, n) => ({
  author: `customer-${1_000 + n * 37}`,
  stars: 1 + (n % 5),
  title: 'Does what it says',
  text: 'It came on time, it is well made, and after four weeks of daily use I would buy it again.',
}))

export const product = {
  id: 42,
  name: 'Enamel kettle, 1.5 l',
  price: { amount: 3_490, currency: 'EUR', taxIncluded: true },
  stock: 17,
  tags: ['kitchen', 'enamel', 'induction', 'sale'],
  rating: 4.4,
  description:
    'A kettle of enamelled steel for gas and induction, with a wooden handle that stays cool and a lid that does not fall off. ' +
    'Holds a litre and a half, whistles, and is repaired free of charge for ten years after it was bought. '.repeat(
      3,
    ),
  reviews: REVIEWS,
}

export const BODY: Buffer = Buffer.from(JSON.stringify(product))

/**
 * The fields of a hit of Stampede. Node adds Date, Connection and Keep-Alive; Express adds
 * X-Powered-By.
 */
export const FIELDS = {
  'Content-Type': 'application/json; charset=utf-8',
  ETag: 'W/"8fc-yJGVLdJLRY0vVGyHy1lpGvYB7mY"',
  Age: '12',
  'Cache-Status': 'Stampede; hit; ttl=48',
  'Content-Length': String(BODY.length),
}
