// Starts nginx or Varnish before Express: caches that are not written in JavaScript, on one core.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../free-port.ts'
import { reachable } from '../lib/reachable.ts'
import { type Server, startNode } from './server.ts'

type Start = (folder: string, port: number, originPort: number) => ChildProcess

const starts: Readonly<Record<string, Start>> = { nginx: startNginx, varnish: startVarnish }

export async function startReference(id: string): Promise<Server> {
  const start = starts[id]
  if (start === undefined) throw new Error(`no reference named ${id}`)
  const origin = await startNode('express-uncached')
  const folder = mkdtempSync(join(tmpdir(), 'stampede-bench-'))
  // If root starts them, both run as another user, who must be able to read the folder.
  chmodSync(folder, 0o755)
  const port = await freePort()
  const child = start(folder, port, origin.port)
  const atExit = () => child.kill('SIGTERM')
  process.once('exit', atExit)
  await reachable(port)
  return {
    port,
    isNode: false,
    usage: () => origin.usage(),
    async [Symbol.asyncDispose]() {
      process.off('exit', atExit)
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      await origin[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function startNginx(folder: string, port: number, originPort: number): ChildProcess {
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, nginxConfig(folder, port, originPort))
  return spawn('nginx', ['-c', file, '-p', folder, '-e', 'stderr'], { stdio: 'ignore' })
}

const nginxConfig = (folder: string, port: number, originPort: number): string => `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  open_file_cache max=1000 inactive=60s;
  proxy_cache_path ${folder}/cache keys_zone=products:10m;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://127.0.0.1:${originPort};
      proxy_cache products;
      proxy_cache_valid 200 1h;
      proxy_cache_lock on;
    }
  }
}`

function startVarnish(folder: string, port: number, originPort: number): ChildProcess {
  const args = ['-F', '-n', folder, '-a', `127.0.0.1:${port}`, '-b', `127.0.0.1:${originPort}`]
  return spawn('varnishd', [...args, '-t', '3600', '-s', 'malloc,64m'], { stdio: 'ignore' })
}
