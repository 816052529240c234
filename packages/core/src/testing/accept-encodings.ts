// Accept-Encoding fields that browsers, crawlers and HTTP libraries send.

export const CLIENTS: ReadonlyArray<readonly [client: string, acceptEncoding: string]> = [
  ['Chrome 137', 'gzip, deflate, br, zstd'],
  ['Firefox 139', 'gzip, deflate, br, zstd'],
  ['Edge 137', 'gzip, deflate, br, zstd'],
  ['curl 8 --compressed', 'deflate, gzip, br, zstd'],
  ['Safari 18', 'gzip, deflate, br'],
  ['Safari 12', 'br, gzip, deflate'],
  ['Chrome 100', 'gzip, deflate, br'],
  ['Googlebot', 'gzip, deflate, br'],
  ['fetch of Node', 'br, gzip, deflate'],
  ['axios 1', 'gzip, compress, deflate, br'],
  ['aiohttp', 'gzip, deflate, br'],
  ['Alamofire', 'br;q=1.0, gzip;q=0.9, deflate;q=0.8'],
  ['Chrome over plain HTTP', 'gzip, deflate'],
  ['Internet Explorer 11', 'gzip, deflate'],
  ['python-requests', 'gzip, deflate'],
  ['OkHttp', 'gzip'],
  ['net/http of Go', 'gzip'],
  ['Net::HTTP of Ruby', 'gzip;q=1.0,deflate;q=0.6,identity;q=0.3'],
  ['a video in Chrome', 'identity;q=1, *;q=0'],
  ['Wget', 'identity'],
]
