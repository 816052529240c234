-- Locks. One row per lock has the lease and the fence, one row per waiting process its place in the
-- queue.

-- A grant changes the fence, which is in a unique index, and a renewal does not. So assert_fence
-- (FOR KEY SHARE) holds back the next grant until its transaction ends, and no renewal.
-- A lease counts from `since`. Before that moment, the clock was set back.
create table stampede.lock (
  id bytea primary key,
  key bytea not null,
  fence bigint not null default 0,
  token bytea,
  since timestamptz not null default 'epoch',
  lease_until timestamptz not null default 'epoch',
  unique (id, fence)
) with (fillfactor = 70);

create table stampede.lock_queue (
  id bytea references stampede.lock on delete cascade,
  process bytea,
  place bigint generated always as identity,
  token bytea not null,
  lease_ms bigint not null,
  primary key (id, process)
);

-- Adds a process to the end of the queue. If it is in the queue, it keeps its place.
create function stampede.lock_queue_up(i bytea, p bytea, tok bytea, ms bigint) returns void
language sql as $$
  insert into stampede.lock_queue (id, process, token, lease_ms) values (i, p, tok, ms)
  on conflict (id, process) do update set token = excluded.token, lease_ms = excluded.lease_ms
$$;

-- Grants the lock to the first process of the queue, and notifies it unless it is `own`. If none
-- waits: to `tok`, or to none if it is null. The caller has locked the row FOR NO KEY UPDATE.
-- A process from the queue gets a short lease, the claim, and renews it. So a dead process delays
-- the queue by 2 s at most.
create function stampede.lock_next(i bytea, own bytea, tok bytea, ms bigint)
returns stampede.lock language plpgsql as $$
declare q stampede.lock_queue; r stampede.lock; t timestamptz := clock_timestamp();
begin
  perform 1 from stampede.lock where id = i for update skip locked;
  if not found then
    -- An open transaction has asserted the fence. It ends before the next grant.
    update stampede.lock set token = null, since = t, lease_until = t + interval '50 ms'
    where id = i returning * into r;
    return r;
  end if;
  delete from stampede.lock_queue
  where id = i and place = (select min(place) from stampede.lock_queue where id = i)
  returning * into q;
  tok := coalesce(q.token, tok);
  if tok is null then
    update stampede.lock set token = null, since = t, lease_until = t
    where id = i returning * into r;
    return r;
  end if;
  if q.token is not null then ms := least(q.lease_ms, 2000); end if;
  update stampede.lock set token = tok, fence = stampede.next_fence(fence),
    since = t, lease_until = t + ms * interval '1 ms'
  where id = i returning * into r;
  if q.process <> own then
    perform pg_notify('stampede:' || encode(q.process, 'escape'),
      'g' || encode(i, 'hex') || ' ' || encode(q.token, 'hex'));
  end if;
  return r;
end $$;

-- Takes a lock, or replies how long the lease of its holder still lasts. A process that is not
-- empty joins the queue in the same step. A caller never overtakes the queue.
create function stampede.lock_acquire(k bytea, tok bytea, ms bigint, p bytea) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare r stampede.lock; i bytea := sha256(k); t timestamptz;
begin
  loop
    insert into stampede.lock (id, key) values (i, k) on conflict (id) do nothing;
    select * into r from stampede.lock where id = i for no key update;
    exit when found;
  end loop;
  t := clock_timestamp();
  if t < r.since then
    -- The clock was set back, so the rest of the lease is unknown. The lease starts again now.
    update stampede.lock l set since = t, lease_until = t + (l.lease_until - l.since)
    where l.id = i returning * into r;
  end if;
  if t >= r.lease_until or r.token is distinct from tok then
    if p <> '' and (t < r.lease_until
      or exists (select 1 from stampede.lock_queue where id = i)) then
      perform stampede.lock_queue_up(i, p, tok, ms);
    end if;
    if t >= r.lease_until then r := stampede.lock_next(i, p, tok, ms); end if;
  end if;
  return json_build_object('granted', coalesce(r.token = tok, false),
    'fence', r.fence::text, 'forMs', stampede.ms_until(r.lease_until))::text;
end $$;

-- Frees a lock, or hands it over to the first process of the queue. The fence `*` matches each one.
-- With a process and its next token, it first joins the queue, and `fence` is that of its grant.
create function stampede.lock_release(
  k bytea, tok bytea, f bytea, p bytea, next_tok bytea, next_ms bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare r stampede.lock; i bytea := sha256(k);
begin
  select * into r from stampede.lock where id = i for no key update;
  if r.token is distinct from tok or (f <> '*' and f <> convert_to(r.fence::text, 'UTF8')) then
    return '{"released":false}';
  end if;
  if next_tok <> '' then perform stampede.lock_queue_up(i, p, next_tok, next_ms); end if;
  r := stampede.lock_next(i, p, null, null);
  return json_build_object('released', true, 'forMs', stampede.ms_until(r.lease_until),
    'fence', case when r.token = next_tok then r.fence::text end)::text;
end $$;

-- Extends leases, a JSON list of [key, token, fence], the first two in hex. Replies the keys and
-- tokens that still have one.
create function stampede.lock_renew(grants bytea, ms bigint) returns text
language sql set search_path = pg_catalog, pg_temp as $$
  with renewed as (
    update stampede.lock l set since = clock_timestamp(), lease_until = stampede.after(ms)
    from json_array_elements(convert_from(grants, 'UTF8')::json) g
    where l.id = sha256(decode(g ->> 0, 'hex')) and l.token = decode(g ->> 1, 'hex')
      and l.fence = (g ->> 2)::bigint
    returning encode(l.key, 'hex') || ' ' || encode(l.token, 'hex') as name)
  select coalesce(json_agg(name), '[]')::text from renewed
$$;

create function stampede.lock_leave(k bytea, p bytea) returns text
language sql set search_path = pg_catalog, pg_temp as $$
  with gone as (delete from stampede.lock_queue where id = sha256(k) and process = p returning 1)
  select json_build_object('left', count(*))::text from gone
$$;

-- The grant that a notice names.
create function stampede.lock_granted(i bytea, tok bytea) returns text
language sql set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select json_build_object('key', encode(key, 'hex'), 'fence', fence::text,
      'forMs', stampede.ms_until(lease_until))::text
    from stampede.lock where id = i and token = tok), 'null')
$$;

-- For applications. Raises if the lock was granted again after this fence. Until the transaction of
-- the caller ends, the lock is granted to no other holder.
create function stampede.assert_fence(key text, fence bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare newest bigint;
begin
  select l.fence into newest from stampede.lock l
  where l.id = sha256(convert_to(assert_fence.key, 'UTF8')) for key share;
  if newest is null or newest > assert_fence.fence then
    raise exception 'lock "%" was granted again: fence % is not the newest', key, fence
      using errcode = 'ST002';
  end if;
end $$;

-- Deletes locks not held for a day, with their queues.
create function stampede.lock_sweep() returns text
language sql set search_path = pg_catalog, pg_temp as $$
  with gone as (
    delete from stampede.lock where id in (
      select id from stampede.lock where lease_until < clock_timestamp() - interval '1 day'
      limit 1000 for update skip locked) returning 1)
  select count(*)::text from gone
$$;
