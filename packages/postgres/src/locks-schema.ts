// The tables and functions of locks. One row per lock has the lease and the fence. Each waiting
// process has one row in the queue. PostgreSQL's `clock_timestamp()` is the only clock.

/**
 * Length of the lease of a lock that was handed over, until the new holder renews it (the claim).
 * If the new holder is dead, the queue waits for this time.
 */
const CLAIM_MS = 2_000
/**
 * Pause before a lock is granted whose last fence an open transaction has asserted. The transaction
 * ends first, so that no write of an earlier holder is committed after the grant.
 */
const ASSERTED_MS = 50

/**
 * The statements that create the part for locks in a schema. A grant changes `fence`, which is in a
 * unique index, and a renewal does not. So `assert_fence` (FOR KEY SHARE) holds back the next grant
 * until its transaction ends, and never a renewal.
 */
export function lockSchema(schema: string): string {
  const s = `"${schema}"`
  return `
create table ${s}.lock (
  id bytea primary key,
  key bytea not null,
  fence bigint not null default 0,
  token text,
  since timestamptz not null default 'epoch',
  lease_until timestamptz not null default 'epoch',
  unique (id, fence)
) with (fillfactor = 70);

create table ${s}.lock_queue (
  id bytea references ${s}.lock on delete cascade,
  process text,
  place bigint generated always as identity,
  token text not null,
  lease_ms float8 not null,
  primary key (id, process)
);

create function ${s}.lock_queue_up(i bytea, proc text, tok text, ms float8) returns void
language sql as $$
  insert into ${s}.lock_queue (id, process, token, lease_ms) values (i, proc, tok, ms)
  on conflict (id, process) do update set token = excluded.token, lease_ms = excluded.lease_ms
$$;

-- Grants the lock to the first process of the queue. If none waits: to tok, or to none if it is
-- null. The caller has the lock's row FOR NO KEY UPDATE. Only another process gets a notice.
create function ${s}.lock_next(i bytea, own text, tok text, ms float8) returns ${s}.lock
language plpgsql as $$
declare q ${s}.lock_queue; r ${s}.lock; t timestamptz := clock_timestamp();
begin
  perform 1 from ${s}.lock where id = i for update skip locked;
  if not found then
    update ${s}.lock set token = null, since = t, lease_until = t + interval '${ASSERTED_MS} ms'
    where id = i returning * into r;
    return r;
  end if;
  delete from ${s}.lock_queue where id = i
    and place = (select min(place) from ${s}.lock_queue where id = i) returning * into q;
  if q.token is null and tok is null then
    update ${s}.lock set token = null, since = t, lease_until = t where id = i returning * into r;
    return r;
  end if;
  update ${s}.lock set token = coalesce(q.token, tok), since = t,
    lease_until = t + coalesce(least(q.lease_ms, ${CLAIM_MS}), ms) * interval '1 ms',
    fence = greatest(fence + 1, (extract(epoch from t) * 1e6)::bigint)
  where id = i returning * into r;
  if q.process <> coalesce(own, '') then
    perform pg_notify('${schema}:' || q.process, encode(i, 'hex') || ' ' || q.token);
  end if;
  return r;
end $$;

create function ${s}.lock_rest(r ${s}.lock) returns float8 language sql as $$
  select greatest(0, extract(epoch from r.lease_until - clock_timestamp()) * 1000)::float8
$$;

create function ${s}.lock_acquire(
  k bytea, tok text, ms float8, proc text, out granted boolean, out fence bigint, out rest float8)
language plpgsql as $$
declare r ${s}.lock; i bytea := sha256(k); t timestamptz;
begin
  loop
    insert into ${s}.lock (id, key) values (i, k) on conflict (id) do nothing;
    select * into r from ${s}.lock where id = i for no key update;
    exit when found;
  end loop;
  t := clock_timestamp();
  if t < r.since then
    -- The clock was set back, so the rest of the lease is unknown, and the lease starts again.
    update ${s}.lock l set since = t, lease_until = t + (l.lease_until - l.since)
    where l.id = i returning * into r;
  end if;
  if t >= r.lease_until or r.token is distinct from tok then
    if proc is not null
      and (t < r.lease_until or exists (select 1 from ${s}.lock_queue where id = i)) then
      perform ${s}.lock_queue_up(i, proc, tok, ms);
    end if;
    if t >= r.lease_until then r := ${s}.lock_next(i, proc, tok, ms); end if;
  end if;
  granted := coalesce(r.token = tok, false);
  fence := r.fence;
  rest := ${s}.lock_rest(r);
end $$;

-- The fence is null if the token alone decides. With a next token, the process queues again first.
create function ${s}.lock_release(
  k bytea, tok text, f bigint, proc text, next_tok text, next_ms float8,
  out released boolean, out fence bigint, out rest float8)
language plpgsql as $$
declare r ${s}.lock; i bytea := sha256(k);
begin
  select * into r from ${s}.lock where id = i for no key update;
  released := r.token is not distinct from tok and r.fence = coalesce(f, r.fence);
  if not coalesce(released, false) then released := false; return; end if;
  if next_tok is not null then perform ${s}.lock_queue_up(i, proc, next_tok, next_ms); end if;
  r := ${s}.lock_next(i, proc, null, null);
  if r.token = next_tok then fence := r.fence; end if;
  rest := ${s}.lock_rest(r);
end $$;

-- Raises if the lock was granted again after this fence. Until the transaction of the caller ends,
-- the lock is not granted to another holder.
create function ${s}.assert_fence(key text, fence bigint) returns void language plpgsql as $$
declare newest bigint;
begin
  select l.fence into newest from ${s}.lock l
  where l.id = sha256(convert_to(assert_fence.key, 'UTF8')) for key share;
  if newest is null or newest > assert_fence.fence then
    raise exception 'lock "%" was granted again: fence % is older than %',
      key, fence, coalesce(newest::text, 'all that are known') using errcode = 'ST002';
  end if;
end $$;
`
}

/** Deletes locks that none has held for a day, with their queues. */
export function sweepLocks(schema: string): string {
  const lock = `"${schema}".lock`
  return `delete from ${lock} where id in (select id from ${lock}
    where lease_until < clock_timestamp() - interval '1 day' limit 1000 for update skip locked)`
}
