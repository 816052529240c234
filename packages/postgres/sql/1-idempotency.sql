-- Records of idempotency keys. `migrate()` replaces the schema `stampede`.
--
-- Each function returns JSON as text, so that every driver returns the same. `clock_timestamp()` is
-- the only clock. Functions are volatile: in READ COMMITTED, each of their statements sees what was
-- committed before it. The functions of each request are in PL/pgSQL, which keeps their plans.
-- No operator or function of another schema may take part: `search_path` is set. That costs time,
-- so those of each request in a transaction have exact types and `pg_catalog.` instead.
--
-- Classes of advisory locks: 1937010032 the attempts with a transaction, 1937010033 the processes
-- that wait for a key, 1937010034 maintenance.

do $$
begin
  -- The oldest version that the tests run on.
  if current_setting('server_version_num')::int < 130000 then
    raise feature_not_supported using message =
      'Stampede needs PostgreSQL 13 or newer, and this is ' || current_setting('server_version');
  end if;
  -- CREATE SCHEMA IF NOT EXISTS needs a privilege even if the schema is there.
  if not exists (select from pg_namespace where nspname = 'stampede') then
    create schema stampede;
  end if;
end $$;

create table stampede.migration (
  id text primary key,
  applied_at timestamptz not null default clock_timestamp()
);

create table stampede.idempotency (
  key bytea constraint stampede_idempotency_pkey primary key,
  -- running, completed, released, uncertain. An attempt with a transaction writes only `completed`.
  state text not null,
  exact bytea not null,
  canonical bytea not null,
  -- The running attempt
  token bytea,
  lease_from timestamptz,
  lease_until timestamptz,
  fence bigint not null,
  attempt int not null default 1,
  -- Attempts in a row whose lease ran out, and whether that ever happened
  lost int not null default 0,
  recovery boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  -- Token of the attempt that ended the record, and its response
  ended bytea,
  frame bytea
) with (fillfactor = 70);

-- A server before 14, or built without LZ4, compresses responses by pglz. That costs more CPU.
do $$
begin
  execute 'alter table stampede.idempotency alter column frame set compression lz4';
exception when syntax_error or feature_not_supported or invalid_parameter_value then
end $$;

create index idempotency_expiry on stampede.idempotency (expires_at);
create index idempotency_open on stampede.idempotency (state, key) where state <> 'completed';

create table stampede.idempotency_step (
  key bytea not null references stampede.idempotency on delete cascade,
  name text not null,
  value bytea not null,
  primary key (key, name)
);

-- 32 bits of a key, for advisory locks. Keys with the same bits are busy for each other.
create function stampede.lock_of(k bytea) returns int
language sql immutable parallel safe as $$ select hashtext(encode(k, 'hex')) $$;

create function stampede.after(ms bigint) returns timestamptz
language sql volatile as $$ select clock_timestamp() + ms::float8 * interval '1 ms' $$;

create function stampede.ms_until(t timestamptz) returns bigint
language sql volatile as $$
  select ceil(greatest(extract(epoch from t - clock_timestamp())::float8 * 1000::float8, 0))::bigint
$$;

-- At least the start of the transaction, which `keep` compares, also if the clock was set back.
create function stampede.next_fence(last bigint) returns bigint
language sql volatile as $$
  select greatest(last + 1,
    (extract(epoch from greatest(now(), clock_timestamp()))::float8 * 1e6::float8)::bigint)
$$;

-- Notifies the processes that wait for a key, if any: they hold its second lock. PostgreSQL commits
-- transactions with notices one by one.
create function stampede.wake(k bytea) returns text
language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock(1937010033, stampede.lock_of(k)) then
    perform pg_notify('stampede', 'w' || encode(k, 'hex'));
  end if;
  return 'null';
end $$;

-- A process that waits for a key holds the second lock of it. False: the attempt is in its commit.
create function stampede.watch(k bytea) returns text
language sql volatile as $$
  select pg_try_advisory_lock_shared(1937010033, stampede.lock_of(k))::text
$$;

create function stampede.unwatch(k bytea) returns text
language sql volatile as $$
  select pg_advisory_unlock_shared(1937010033, stampede.lock_of(k))::text
$$;

create function stampede.begun(r stampede.idempotency) returns text
language sql volatile as $$
  select pg_catalog.json_build_object(
    'status', 'begun', 'fence', r.fence::text, 'attempt', r.attempt, 'isRecovery', r.recovery,
    'steps', (
      select pg_catalog.json_object_agg(s.name, encode(s.value, 'base64'))
      from stampede.idempotency_step s where s.key = r.key
    )
  )::text
$$;

-- What a record replies to a request. Null if an attempt may begin.
create function stampede.reply_of(r stampede.idempotency, exact bytea, canonical bytea) returns text
language sql volatile as $$
  select case
    when (exact = '' or r.exact <> exact) and (canonical = '' or r.canonical <> canonical)
      then '{"status":"mismatch"}'
    when r.state = 'completed' then pg_catalog.json_build_object(
      'status', 'completed', 'forMs', stampede.ms_until(r.expires_at),
      'frame', encode(r.frame, 'base64'))::text
    when r.state = 'uncertain' then '{"status":"uncertain"}'
    when r.state = 'running' and r.lease_until > clock_timestamp()
      then pg_catalog.json_build_object(
        'status', 'busy', 'forMs', stampede.ms_until(r.lease_until))::text
  end
$$;

-- TRANSACTION MODE

-- Begins an attempt in the transaction that is open: the first statement of it. `idle_ms` 0 only
-- looks, and replies `free` if an attempt may begin. The look is a statement after that of the lock,
-- so it sees what was committed before. Without the lock it looks too, so that replays do not
-- disturb each other. A standby may lag behind, so there it fails. Assignments of a function call are
-- cheaper than PERFORM.
create function stampede.claim(k bytea, exact bytea, canonical bytea, idle_ms bigint) returns text
language plpgsql as $$
declare
  is_ours boolean := pg_try_advisory_xact_lock(1937010032, stampede.lock_of(k));
  r stampede.idempotency;
  reply text;
begin
  select * into r from stampede.idempotency i where i.key = k;
  -- The first request of a key. PL/pgSQL prepares each expression again in each transaction, so
  -- there are few.
  if r.key is null and is_ours and idle_ms > 0 and current_setting('transaction_read_only') = 'off'
  then
    return '{"status":"begun","attempt":1,"isRecovery":false,"steps":null,"idle":"'
      || set_config('idle_in_transaction_session_timeout', idle_ms::text, true)
      || '","fence":"' || stampede.next_fence(0)::text || '"}';
  end if;

  if current_setting('transaction_read_only') = 'on' then
    raise read_only_sql_transaction using message = 'the transaction is read-only';
  end if;
  if r.expires_at > clock_timestamp() then
    reply := stampede.reply_of(r, exact, canonical);
    if reply is not null then return reply; end if;
  end if;
  if not is_ours then return '{"status":"busy"}'; end if;
  if idle_ms = 0 then return '{"status":"free"}'; end if;

  reply := set_config('idle_in_transaction_session_timeout', idle_ms::text, true);
  if r.expires_at > clock_timestamp() then
    -- Left by attempts with a lease: released, or the lease ran out.
    r.recovery := r.recovery or r.state = 'running';
    r.attempt := r.attempt + 1;
  else
    -- Expired: no steps, and the first attempt.
    r.key := null;
    r.recovery := false;
    r.attempt := 1;
  end if;
  r.fence := stampede.next_fence(r.fence);
  reply := stampede.begun(r);
  delete from stampede.idempotency i where i.key = k;
  return reply;
end $$;

-- Keeps the response: the last statement before COMMIT. The primary key is the guarantee, not the
-- lock: a second record raises unique_violation, which rolls the writes of the handler back. So
-- ON CONFLICT may never be added here. A fence is the time of its claim at least. If the
-- transaction is younger, the handler has ended that of the claim.
create function stampede.keep(
  k bytea, own_token bytea, own_exact bytea, own_canonical bytea, own_fence bytea,
  own_attempt bigint, keep_ms bigint, response bytea
) returns text
language plpgsql as $$
declare
  fence_number bigint := convert_from(own_fence, 'UTF8')::bigint;
begin
  if fence_number < (extract(epoch from now())::float8 * 1e6::float8)::bigint then
    raise no_active_sql_transaction using message = 'the transaction of the attempt is over';
  end if;
  insert into stampede.idempotency
    (key, state, ended, exact, canonical, fence, attempt, expires_at, frame)
  values (k, 'completed', own_token, own_exact, own_canonical, fence_number, own_attempt,
    stampede.after(keep_ms), response);
  -- As wake() does, because a call costs more than the lock.
  if pg_try_advisory_xact_lock(1937010033, stampede.lock_of(k)) then return 'null'; end if;
  return stampede.wake(k);
end $$;

-- Whether the attempt of this token was committed, after its COMMIT had no reply: `busy` while its
-- transaction may still be open.
create function stampede.outcome(k bytea, token bytea) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  is_over boolean := pg_try_advisory_xact_lock(1937010032, stampede.lock_of(k));
  owner bytea;
begin
  select i.ended into owner from stampede.idempotency i where i.key = k and i.state = 'completed';
  return case
    when owner = token then '"finished"'
    when owner is not null then '"stale"'
    when is_over then '"unknown"'
    else '"busy"'
  end;
end $$;

-- LEASE MODE: each function is a transaction of its own.

create function stampede.begin_lease(
  k bytea, own_token bytea, own_exact bytea, own_canonical bytea, lease_ms bigint, keep_ms bigint,
  most_attempts bigint, keep_uncertain_ms bigint
) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  r stampede.idempotency;
  reply text;
  kept_until timestamptz := stampede.after(greatest(lease_ms, keep_ms));
begin
  -- An attempt with a transaction runs.
  if not pg_try_advisory_xact_lock_shared(1937010032, stampede.lock_of(k)) then
    return '{"status":"busy"}';
  end if;
  loop
    insert into stampede.idempotency as i
      (key, state, exact, canonical, token, lease_from, lease_until, fence, expires_at)
    values (k, 'running', own_exact, own_canonical, own_token, clock_timestamp(),
      stampede.after(lease_ms), stampede.next_fence(0), kept_until)
    on conflict (key) do nothing returning * into r;
    if found then return stampede.begun(r); end if;
    select * into r from stampede.idempotency i where i.key = k for update;
    -- Else the record was deleted meanwhile.
    exit when found;
  end loop;

  if r.expires_at <= clock_timestamp() then
    delete from stampede.idempotency_step s where s.key = k;
    r.state := 'released';
    r.exact := own_exact;
    r.canonical := own_canonical;
    r.attempt := 0;
    r.lost := 0;
    r.recovery := false;
    r.created_at := clock_timestamp();
  end if;
  if r.state = 'running' and clock_timestamp() < r.lease_from then
    -- The clock was set back, so the rest of the lease is unknown. The lease starts again now.
    r.lease_until := clock_timestamp() + (r.lease_until - r.lease_from);
    update stampede.idempotency i
      set lease_from = clock_timestamp(), lease_until = r.lease_until where i.key = k;
  end if;

  reply := stampede.reply_of(r, own_exact, own_canonical);
  if r.token = own_token and reply like '%"busy"%' then return stampede.begun(r); end if;
  if reply is not null then return reply; end if;

  if r.state = 'running' then
    r.lost := r.lost + 1;
    r.recovery := true;
    if r.lost >= most_attempts then
      -- The token stays, because its holder may still finish the attempt.
      update stampede.idempotency i set state = 'uncertain', lost = r.lost, recovery = true,
        expires_at = stampede.after(keep_uncertain_ms) where i.key = k;
      return '{"status":"uncertain"}';
    end if;
  end if;
  update stampede.idempotency i set state = 'running', exact = r.exact, canonical = r.canonical,
    token = own_token, lease_from = clock_timestamp(), lease_until = stampede.after(lease_ms),
    fence = stampede.next_fence(r.fence), attempt = r.attempt + 1, lost = r.lost,
    recovery = r.recovery, created_at = r.created_at, expires_at = kept_until, ended = null,
    frame = null
  where i.key = k returning * into r;
  return stampede.begun(r);
end $$;

-- A lease that ran out is extended too, if no other attempt took over.
create function stampede.renew(k bytea, own_token bytea, own_fence bytea, lease_ms bigint)
returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update stampede.idempotency i set lease_from = clock_timestamp(),
    lease_until = stampede.after(lease_ms),
    expires_at = greatest(i.expires_at, stampede.after(lease_ms + 60000))
  where i.key = k and i.token = own_token and i.fence::text = convert_from(own_fence, 'UTF8')
    and i.expires_at > clock_timestamp();
  return found::text;
end $$;

-- `own_fence` `*` matches any fence: the attempt never ran its handler. `as_state` is completed,
-- released or uncertain. A completed attempt whose record is gone is written again.
create function stampede.finish_lease(
  k bytea, own_token bytea, own_fence bytea, as_state bytea, keep_ms bigint, response bytea,
  own_exact bytea, own_canonical bytea
) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  r stampede.idempotency;
  next_state text := convert_from(as_state, 'UTF8');
  fence_text text := convert_from(own_fence, 'UTF8');
begin
  select * into r from stampede.idempotency i
    where i.key = k and i.expires_at > clock_timestamp() for update;
  if not found then
    if next_state <> 'completed' or fence_text = '*' then return '"stale"'; end if;
    delete from stampede.idempotency i where i.key = k and i.expires_at <= clock_timestamp();
    insert into stampede.idempotency
      (key, state, ended, exact, canonical, fence, expires_at, frame)
    values (k, next_state, own_token, own_exact, own_canonical, fence_text::bigint,
      stampede.after(keep_ms), response)
    on conflict (key) do nothing;
    return case when found then '"resurrected"' else '"stale"' end;
  end if;
  if fence_text <> '*' and r.fence::text <> fence_text then return '"stale"'; end if;
  if r.state not in ('running', 'uncertain') or r.token is distinct from own_token then
    return case when r.state = next_state and r.ended = own_token
      then '"finished"' else '"stale"' end;
  end if;
  update stampede.idempotency i set state = next_state, token = null, ended = own_token,
    frame = case when next_state = 'completed' then response end,
    lost = case when next_state = 'released' and fence_text <> '*' then 0 else i.lost end,
    expires_at = stampede.after(keep_ms)
  where i.key = k;
  perform stampede.wake(k);
  return '"finished"';
end $$;

create function stampede.keep_step(
  k bytea, own_token bytea, own_fence bytea, step bytea, result bytea
) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform 1 from stampede.idempotency i
    where i.key = k and i.token = own_token and i.fence::text = convert_from(own_fence, 'UTF8')
      and i.expires_at > clock_timestamp()
    for update;
  if not found then return '"stale"'; end if;
  insert into stampede.idempotency_step values (k, convert_from(step, 'UTF8'), result)
    on conflict (key, name) do update set value = excluded.value;
  return '"kept"';
end $$;

-- FOR OPERATORS

-- The record of a key, or `most` of a state after it, without frames. Replies pairs of a key in hex
-- and its record. The record is null if it has expired, or if the sweep deleted it between the two
-- statements, so that a page is never shorter than what was found.
create function stampede.inspect(k bytea, in_state bytea, most bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  keys bytea[] := array[k];
begin
  if most > 0 then
    execute format('select array(select key from stampede.idempotency
      where state = %L and key > $1 order by key limit $2)', convert_from(in_state, 'UTF8'))
    into keys using k, most;
  end if;
  return (select coalesce(json_agg(json_build_array(
    encode(listed.key, 'hex'),
    case when i.expires_at > clock_timestamp() then json_build_object(
      'state', case when i.state = 'running' and i.lease_until <= clock_timestamp() then 'lapsed'
        else i.state end,
      'attempt', i.attempt, 'fence', i.fence::text,
      'leaseForMs', case when i.state = 'running' then stampede.ms_until(i.lease_until) else 0 end,
      'ageMs', greatest(0, floor(extract(epoch from clock_timestamp() - i.created_at) * 1000)),
      'keepForMs', stampede.ms_until(i.expires_at),
      'frame', case when most = 0 then encode(i.frame, 'base64') end,
      'steps', array(select s.name from stampede.idempotency_step s where s.key = i.key)
    ) end
  ) order by listed.key), '[]')
    from unnest(keys) listed (key) left join lateral (
      -- With LIMIT, PostgreSQL never reads the whole table to join it.
      select * from stampede.idempotency where key = listed.key limit 1
    ) i on true)::text;
end $$;

-- `force`: 1, 0, or the state and fence to settle. The new fence refuses another operator who saw
-- the record before. The notice makes every process drop its copy.
create function stampede.settle(
  k bytea, as_state bytea, keep_ms bigint, response bytea, force bytea
) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  r stampede.idempotency;
begin
  select * into r from stampede.idempotency i
    where i.key = k and i.expires_at > clock_timestamp() for update;
  if not found then return '"absent"'; end if;
  if r.state = 'running' and r.lease_until <= clock_timestamp() then r.state := 'lapsed'; end if;
  if convert_from(force, 'UTF8') not in ('1', r.state || ' ' || r.fence,
    (r.state in ('running', 'completed'))::int::text) then return '"refused"'; end if;
  update stampede.idempotency i set state = convert_from(as_state, 'UTF8'), token = null,
    fence = stampede.next_fence(i.fence), ended = null, lost = 0, recovery = false,
    expires_at = stampede.after(keep_ms),
    frame = case when as_state = convert_to('completed', 'UTF8') then response end
  where i.key = k;
  perform stampede.wake(k);
  perform pg_notify('stampede', 's' || encode(k, 'hex'));
  return '"settled"';
end $$;

-- Deletes at most 1000 expired records, unless another process does so.
create function stampede.sweep() returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  deleted int;
begin
  if not pg_try_advisory_xact_lock(1937010034, 1) then return '0'; end if;
  delete from stampede.idempotency i where i.key in (
    select o.key from stampede.idempotency o where o.expires_at <= clock_timestamp()
    limit 1000 for update skip locked
  );
  get diagnostics deleted = row_count;
  return deleted::text;
end $$;
