// Test suites to run, and the differences that are intended.

const MOCHA = ['node_modules/mocha/bin/_mocha', '--check-leaks']

/** `folder`: the name of the clone. `args`: arguments of node. */
export const SUITES = {
  express: {
    folder: 'express',
    reporter: 'mocha',
    args: [...MOCHA, '--require', 'test/support/env', 'test/', 'test/acceptance/'],
  },
  'serve-static': { folder: 'serve-static', reporter: 'mocha', args: [...MOCHA, 'test/'] },
  'express-session': {
    folder: 'express-session',
    reporter: 'mocha',
    prepare: ['sh', 'test/support/gencert.sh'],
    args: [...MOCHA, '--require', 'test/support/env', '--no-exit', 'test/'],
  },
  compression: { folder: 'compression', reporter: 'mocha', args: [...MOCHA, 'test/'] },
  koa: { folder: 'koa', reporter: 'node', args: ['--test', '--test-force-exit'] },
}

/** By suite: the tests that pass without the cache and fail behind it, and why that is intended. */
export const MEANT = {
  express: [
    {
      reason:
        'A handler that fills does not see the range of its client: it makes the whole, and the ' +
        'cache cuts the part. So `req.range()` returns undefined. `bypass` is for handlers that read ranges by themselves.',
      tests: [
        'req .range(size) should return parsed ranges',
        'req .range(size) should cap to the given size',
        'req .range(size) should cap to the given size when open-ended',
        'req .range(size) should have a .type',
        'req .range(size) should accept any type',
        'req .range(size, options) with "combine: true" option should return combined ranges',
      ],
    },
    {
      reason:
        'A stored response without a validator gets an ETag, so that its clients can be answered ' +
        '304. A front cannot see the `etag` setting of the app behind it.',
      tests: [
        'res "etag" setting when enabled should not send ETag for res.send()',
        'res "etag" setting when disabled should send no ETag',
        'res "etag" setting when a function should not send falsy ETag',
      ],
    },
    {
      reason:
        'HEAD is answered from what the GET before it stored: with Age, and another Cache-Status.',
      tests: ['HEAD should output the same headers as GET requests'],
    },
  ],
  koa: [
    {
      reason:
        'The second of two equal requests is a hit, and the test counts the runs of the handler.',
      tests: [
        'res.writable when continuous requests in one persistent connection should always be writable and respond to all requests',
      ],
    },
  ],
}
