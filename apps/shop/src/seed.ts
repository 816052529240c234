// Products of the Quiet Cup, a small tea shop. The database starts with them.

export interface Product {
  readonly id: number
  readonly name: string
  readonly category: string
  readonly region: string
  /** For a 100 g tin, in euro cents. */
  readonly priceCents: number
  readonly stock: number
  readonly description: string
  /** The colour of the tea in the cup. */
  readonly liquor: string
  readonly steepCelsius: number
  readonly steepSeconds: number
}

type Row = [
  name: string,
  region: string,
  priceCents: number,
  stock: number,
  liquor: string,
  steepCelsius: number,
  steepSeconds: number,
  description: string,
]

// Prices are for a 100 g tin, in euro cents. `liquor` is the colour of the tea in the cup.
// biome-ignore format: it is a table, and is read as one
const SHELVES: Readonly<Record<string, readonly Row[]>> = {
  green: [
    ['Morning Sencha', 'Uji, Japan', 1450, 64, '#b9c46a', 75, 60, 'Grassy and bright, with a little sea in it.'],
    ['Longjing, First Picking', 'Hangzhou, China', 3200, 18, '#d6d08a', 80, 120, 'Pan-fired by hand; toasted chestnut.'],
    ['Gunpowder', 'Zhejiang, China', 780, 140, '#c3b04f', 80, 150, 'Rolled to pellets. Strong enough for mint and sugar.'],
    ['Genmaicha', 'Shizuoka, Japan', 960, 97, '#cfc36b', 85, 90, 'Green tea and popped rice. Smells like a warm kitchen.'],
  ],
  white: [
    ['Silver Needle', 'Fuding, China', 3850, 12, '#eadfae', 80, 240, 'Buds only, dried in the sun. Honeydew, and patience.'],
    ['White Peony', 'Zhenghe, China', 1900, 41, '#e3cf92', 85, 210, 'Two leaves and a bud. Hay, melon, a soft end.'],
    ['Shou Mei, Aged', 'Fuding, China', 1680, 33, '#cf9d55', 95, 180, 'Six years in a dry room; dates and old books.'],
    ['Malawi Antlers', 'Thyolo, Malawi', 2750, 9, '#e2c07a', 90, 240, 'Made from stems, not leaves. Apricot without the leaf.'],
  ],
  oolong: [
    ['Iron Goddess', 'Anxi, China', 1780, 52, '#d9b14e', 95, 60, 'Lightly roasted. Orchid first, then butter.'],
    ['Da Hong Pao', 'Wuyi, China', 3400, 15, '#a8642a', 98, 45, 'Cliff tea, charcoal-roasted. Cocoa and wet stone.'],
    ['Alishan High Mountain', 'Chiayi, Taiwan', 2950, 26, '#dcc56c', 95, 60, 'Grown above the clouds; cream, pine, cold air.'],
    ['Oriental Beauty', 'Hsinchu, Taiwan', 3600, 11, '#c47f35', 90, 90, 'Bitten by leafhoppers, and better for it. Muscat.'],
  ],
  black: [
    ['Keemun', 'Qimen, China', 1350, 73, '#93401f', 95, 180, 'Wine, smoke and a little rose. Takes no milk.'],
    ['Assam, Second Flush', 'Jorhat, India', 990, 180, '#7c2d14', 98, 240, 'Malt all the way down. This one takes the milk.'],
    ['Darjeeling, First Flush', 'Kurseong, India', 2400, 22, '#c9843a', 90, 180, 'Picked in March. Green almond and white grape.'],
    ['Lapsang, Pine-Smoked', 'Tongmu, China', 1520, 38, '#84341a', 95, 150, 'A campfire, the morning after. You know already.'],
  ],
  dark: [
    ['Ripe Pu-erh, 2016', 'Menghai, China', 1890, 47, '#4a1f10', 100, 30, 'Forest floor, beetroot, no bitterness at all.'],
    ['Raw Pu-erh, Ancient Trees', 'Yiwu, China', 4200, 7, '#b9742f', 95, 20, 'Apricot stone and camphor; brew it twelve times.'],
    ['Liu Bao, Basket-Aged', 'Wuzhou, China', 1740, 29, '#5a2712', 100, 40, 'Betel nut and cellar. Once paid to tin miners.'],
    ['Fu Brick, Golden Flowers', 'Hunan, China', 1290, 35, '#8a4a1d', 100, 60, 'The yellow specks are welcome. Malt and mushroom.'],
  ],
  herbal: [
    ['Chamomile, Whole Flower', 'Nile Delta, Egypt', 820, 120, '#e0b93f', 95, 300, 'Apples and hay. For the end of a long day.'],
    ['Rooibos, Unflavoured', 'Cederberg, South Africa', 740, 155, '#a23d1b', 100, 360, 'Cannot be steeped too long. We have tried.'],
    ['Verbena', 'Marrakesh, Morocco', 930, 84, '#cfd07d', 95, 300, 'Whole leaves. Lemon with the corners taken off.'],
    ['Mountain Tea', 'Olympus, Greece', 1080, 58, '#d4b85e', 98, 420, 'Ironwort in bundles. Sage, honey, goat bells.'],
  ],
}

export const CATEGORIES: readonly string[] = Object.keys(SHELVES)

/** Every product in the order of its id, which starts at 1. */
export const SEED: readonly Product[] = Object.entries(SHELVES)
  .flatMap(([category, rows]) => rows.map((row) => ({ category, row })))
  .map(({ category, row }, index) => {
    const [name, region, priceCents, stock, liquor, steepCelsius, steepSeconds, description] = row
    const brewing = { liquor, steepCelsius, steepSeconds }
    return { id: index + 1, name, category, region, priceCents, stock, description, ...brewing }
  })
