-- dlock's tables and functions in PostgreSQL 12 or newer. dlock runs this by
-- itself where its role may create a schema; else a DBA does. It may be run
-- again. For a schema of another name, replace each "dlock." and the name here.
--
-- R1  The row of dlock.key is locked first, then rows of that key, and never
--     rows of a second key. Renewals pass over locked rows. So no cycle arises.
-- R2  No lock on a row outlives the call.
-- R3  Only clock_timestamp() counts. now() is when the transaction began.
-- R4  A key is held alone until dlock.key.until. Sharers stand in dlock.hold,
--     and `shared` counts them, `queued` those in dlock.wait.
-- R5  Each grant writes the row of dlock.key with a larger fence. A row that is
--     missing or old still gives a larger one, because 64 a ms since September
--     2020 is the least.
-- R6  A hold whose time is over is over, although nobody came.
-- R7  Waiters are granted in the order of `place`. A waiter that did not ask
--     itself gets a claim, and a notice in the same transaction.
-- R8  A client that hears notices has an advisory lock on its name. Its waiters
--     are dead when that is free. One that was dropped by mistake comes back
--     with its place.
--
-- The names of functions carry a version, because old and new programs may use
-- the tables at the same time. Times are in microseconds.
CREATE SCHEMA IF NOT EXISTS dlock;

CREATE TABLE IF NOT EXISTS dlock.key (
  id bytea PRIMARY KEY,
  fence bigint NOT NULL,
  token bytea NOT NULL DEFAULT '',
  until timestamptz NOT NULL DEFAULT 'epoch',
  shared integer NOT NULL DEFAULT 0,
  queued integer NOT NULL DEFAULT 0,
  asked boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL DEFAULT 'epoch',
  owner bytea,
  value bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000);

CREATE TABLE IF NOT EXISTS dlock.hold (
  id bytea NOT NULL,
  token bytea NOT NULL,
  units bigint NOT NULL,
  cap bigint NOT NULL,
  fence bigint NOT NULL,
  until timestamptz NOT NULL,
  asked boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL,
  owner bytea,
  value bytea,
  PRIMARY KEY (id, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000);

CREATE TABLE IF NOT EXISTS dlock.wait (
  id bytea NOT NULL,
  place bigint NOT NULL,
  token bytea NOT NULL,
  units bigint NOT NULL,
  cap bigint NOT NULL,
  claim bigint NOT NULL,
  alive timestamptz NOT NULL,
  heard boolean NOT NULL,
  since timestamptz NOT NULL,
  owner bytea,
  value bytea,
  PRIMARY KEY (id, place)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000);

CREATE OR REPLACE FUNCTION dlock.us1(p_us bigint) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
  SELECT p_us * interval '1 microsecond'
$$;

-- How long from now on; at least 0.
CREATE OR REPLACE FUNCTION dlock.left1(p_until timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(0, (extract(epoch FROM p_until - clock_timestamp())
    * 1000000)::bigint)
$$;

-- The least fence (R5).
CREATE OR REPLACE FUNCTION dlock.seed1() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT 1000000000000 + ((extract(epoch FROM clock_timestamp()) - 1600000000)
    * 64000)::bigint
$$;

-- Whether the client of a token listens (R8).
CREATE OR REPLACE FUNCTION dlock.lives1(p_token bytea) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT NOT pg_try_advisory_xact_lock(
    ('x' || encode(substr(p_token, 9, 8), 'hex'))::bit(64)::bigint)
$$;

-- Tells the client of a token: 8 of its 16 bytes name the channel.
CREATE OR REPLACE FUNCTION dlock.tell1(p_what text, p_token bytea)
RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_notify('dlock_' || encode(substr(p_token, 9, 8), 'hex'),
    p_what || ' ' || encode(p_token, 'hex'))
$$;

-- The admission rule: gives to the heads of the queue while they fit. The
-- caller has locked the key's row. p_mine gets p_span, all others a claim.
-- Returns p_mine's fence.
CREATE OR REPLACE FUNCTION dlock.grant1(p_id bytea, p_mine bytea,
  p_span bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  k dlock.key;
  w dlock.wait;
  at timestamptz;
  used bigint := 0;
  its_cap bigint := 0;
  span bigint;
  mine bigint;
BEGIN
  SELECT * INTO k FROM dlock.key WHERE id = p_id;
  at := clock_timestamp();
  IF k.shared > 0 THEN
    DELETE FROM dlock.hold WHERE id = p_id AND until <= at;
    SELECT count(*), coalesce(sum(units), 0), coalesce(max(cap), 0)
      INTO k.shared, used, its_cap FROM dlock.hold WHERE id = p_id;
  END IF;
  WHILE k.queued > 0 AND k.until <= at LOOP
    SELECT * INTO w FROM dlock.wait WHERE id = p_id ORDER BY place LIMIT 1;
    IF NOT FOUND THEN
      k.queued := 0;
      EXIT;
    END IF;
    IF w.token = p_mine
        OR w.alive > at AND (NOT w.heard OR dlock.lives1(w.token)) THEN
      EXIT WHEN k.shared > 0 AND (w.units = 0 OR w.cap <> its_cap
        OR its_cap > 0 AND used + w.units > its_cap);
      k.fence := greatest(k.fence + 1, dlock.seed1());
      span := w.claim;
      IF w.token = p_mine THEN
        span := p_span;
        mine := k.fence;
      ELSE
        PERFORM dlock.tell1('g', w.token);
      END IF;
      IF w.units = 0 THEN
        k.token := w.token;
        k.until := at + dlock.us1(span);
        k.asked := false;
        k.since := at;
        k.owner := w.owner;
        k.value := w.value;
      ELSE
        INSERT INTO dlock.hold (id, token, units, cap, fence, until, since,
            owner, value)
          VALUES (p_id, w.token, w.units, w.cap, k.fence,
            at + dlock.us1(span), at, w.owner, w.value);
        k.shared := k.shared + 1;
        used := used + w.units;
        its_cap := w.cap;
      END IF;
    END IF;
    DELETE FROM dlock.wait WHERE id = p_id AND place = w.place;
    k.queued := greatest(k.queued - 1, 0);
  END LOOP;
  UPDATE dlock.key SET fence = k.fence, token = k.token, until = k.until,
      shared = k.shared, queued = k.queued, asked = k.asked, since = k.since,
      owner = k.owner, value = k.value
    WHERE id = p_id;
  RETURN mine;
END $$;

-- Who holds the key first, or no row.
CREATE OR REPLACE FUNCTION dlock.look1(p_id bytea, OUT fence bigint,
  OUT owner bytea, OUT rest bigint) RETURNS SETOF record
LANGUAGE sql VOLATILE AS $$
  SELECT k.fence, k.owner, dlock.left1(k.until) FROM dlock.key k
    WHERE k.id = p_id AND k.until > clock_timestamp()
  UNION ALL
  (SELECT h.fence, h.owner, dlock.left1(min(h.until) OVER ())
    FROM dlock.hold h WHERE h.id = p_id AND h.until > clock_timestamp()
    ORDER BY h.fence LIMIT 1)
  LIMIT 1
$$;

-- Takes a key that is free, or has room. p_how: 0 tries, 1 queues up, 2 keeps a
-- place, and never makes one. p_place: 0, or an earlier place.
-- said: 0 got it, 1 busy, 2 waits, 3 gone, 4 others share under another limit.
CREATE OR REPLACE FUNCTION dlock.acquire1(p_id bytea, p_token bytea,
  p_span bigint, p_units bigint, p_cap bigint, p_how bigint, p_claim bigint,
  p_alive bigint, p_heard bigint, p_place bigint, p_owner bytea, p_value bytea,
  OUT said integer, OUT f bigint, OUT place bigint, OUT rank bigint,
  OUT rest bigint, OUT holder bytea)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
#variable_conflict use_column
DECLARE
  k dlock.key;
  w dlock.wait;
  ahead dlock.wait;
  at timestamptz;
  is_new boolean := true;
  other bigint;
BEGIN
  -- Without a lock: another one holds it alone.
  SELECT * INTO k FROM dlock.key WHERE id = p_id;
  IF FOUND AND k.until > clock_timestamp() AND k.token <> p_token THEN
    IF p_how = 0 AND (k.queued = 0 OR p_units = 0) THEN
      said := 1;
      holder := k.owner;
      RETURN;
    ELSIF p_how = 2 THEN
      SELECT * INTO w FROM dlock.wait WHERE id = p_id AND token = p_token;
      IF NOT FOUND THEN
        said := 3;
        RETURN;
      ELSIF w.alive > clock_timestamp() + dlock.us1(p_alive / 2)
          AND w.heard = (p_heard = 1) THEN
        SELECT * INTO ahead FROM dlock.wait WHERE id = p_id
          AND wait.place < w.place ORDER BY wait.place DESC LIMIT 1;
        IF NOT FOUND OR p_units = 0 OR ahead.units = 0 OR ahead.cap = p_cap
        THEN
          said := 2;
          acquire1.place := w.place;
          SELECT count(*) INTO acquire1.rank FROM dlock.wait
            WHERE id = p_id AND wait.place < w.place;
          rest := dlock.left1(k.until);
          holder := k.owner;
          RETURN;
        END IF;
      END IF;
    END IF;
  END IF;

  -- A free mutex, also a new one.
  IF p_units = 0 AND p_how < 2 THEN
    at := clock_timestamp();
    INSERT INTO dlock.key AS x (id, fence, token, until, since, owner, value)
      VALUES (p_id, dlock.seed1(), p_token,
        clock_timestamp() + dlock.us1(p_span), at, p_owner, p_value)
      ON CONFLICT (id) DO UPDATE SET
        fence = greatest(x.fence + 1, excluded.fence), token = p_token,
        until = clock_timestamp() + dlock.us1(p_span),
        since = clock_timestamp(), owner = p_owner, value = p_value,
        asked = false
      WHERE x.until <= clock_timestamp() AND x.shared = 0 AND x.queued = 0
      RETURNING x.fence INTO acquire1.f;
    IF FOUND THEN
      said := 0;
      RETURN;
    END IF;
  END IF;

  LOOP
    SELECT * INTO k FROM dlock.key WHERE id = p_id FOR UPDATE;
    EXIT WHEN FOUND;
    IF p_how = 2 THEN
      said := 3;
      RETURN;
    END IF;
    INSERT INTO dlock.key (id, fence) VALUES (p_id, 0)
      ON CONFLICT (id) DO NOTHING;
  END LOOP;
  at := clock_timestamp();

  -- It holds already: a claim becomes a whole hold.
  IF k.token = p_token AND k.until > at THEN
    UPDATE dlock.key SET until = greatest(until, at + dlock.us1(p_span))
      WHERE id = p_id;
    said := 0;
    acquire1.f := k.fence;
    RETURN;
  END IF;
  IF k.shared > 0 THEN
    UPDATE dlock.hold SET until = greatest(until, at + dlock.us1(p_span))
      WHERE id = p_id AND token = p_token AND until > at
      RETURNING fence INTO acquire1.f;
    IF FOUND THEN
      said := 0;
      RETURN;
    END IF;
  END IF;

  SELECT * INTO w FROM dlock.wait WHERE id = p_id AND token = p_token;
  IF FOUND THEN
    is_new := false;
    UPDATE dlock.wait SET alive = at + dlock.us1(p_alive), heard = p_heard = 1
      WHERE id = p_id AND wait.place = w.place;
  ELSIF p_how = 2 THEN
    said := 3;
    RETURN;
  ELSE
    w.place := p_place;
    PERFORM 1 FROM dlock.wait WHERE id = p_id AND wait.place = p_place;
    IF p_place <= 0 OR FOUND THEN
      SELECT greatest(coalesce(max(wait.place), 0) + 1,
          (extract(epoch FROM at) * 1000000)::bigint)
        INTO w.place FROM dlock.wait WHERE id = p_id;
    END IF;
    INSERT INTO dlock.wait (id, place, token, units, cap, claim, alive, heard,
        since, owner, value)
      VALUES (p_id, w.place, p_token, p_units, p_cap, p_claim,
        at + dlock.us1(p_alive), p_heard = 1, at, p_owner, p_value);
    UPDATE dlock.key SET queued = queued + 1 WHERE id = p_id;
  END IF;
  acquire1.f := dlock.grant1(p_id, p_token, p_span);
  IF acquire1.f IS NOT NULL THEN
    said := 0;
    RETURN;
  END IF;

  -- One right behind another limit is refused, holder or waiter.
  said := CASE WHEN p_how = 0 THEN 1 ELSE 2 END;
  IF p_units > 0 THEN
    SELECT * INTO ahead FROM dlock.wait WHERE id = p_id
      AND wait.place < w.place AND alive > at ORDER BY wait.place DESC LIMIT 1;
    IF FOUND THEN
      other := CASE WHEN ahead.units > 0 THEN ahead.cap END;
    ELSE
      SELECT max(cap) INTO other FROM dlock.hold
        WHERE id = p_id AND until > at;
    END IF;
    IF other <> p_cap THEN
      said := 4;
    END IF;
  END IF;
  SELECT l.owner, l.rest INTO acquire1.holder, acquire1.rest
    FROM dlock.look1(p_id) l;
  IF said = 2 THEN
    acquire1.place := w.place;
    SELECT count(*) INTO acquire1.rank FROM dlock.wait
      WHERE id = p_id AND wait.place < w.place;
    RETURN;
  END IF;
  DELETE FROM dlock.wait WHERE id = p_id AND wait.place = w.place;
  UPDATE dlock.key SET queued = greatest(queued - 1, 0) WHERE id = p_id;
  IF NOT is_new THEN
    PERFORM dlock.grant1(p_id, ''::bytea, 0);
  END IF;
END $$;

-- Ends what the token has here, place or hold, and lets the next ones in.
-- p_rest: how long the hold must still last. Repeatable.
CREATE OR REPLACE FUNCTION dlock.leave1(p_id bytea, p_token bytea,
  p_rest bigint, OUT held boolean, OUT was_asked boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
  k dlock.key;
  at timestamptz;
BEGIN
  held := false;
  was_asked := false;
  IF p_rest <= 0 THEN
    UPDATE dlock.key SET token = '', until = 'epoch'
      WHERE id = p_id AND token = p_token AND until > clock_timestamp()
        AND queued = 0
      RETURNING true, asked INTO held, was_asked;
    IF FOUND THEN
      RETURN;
    END IF;
    held := false;
    was_asked := false;
  END IF;
  SELECT * INTO k FROM dlock.key WHERE id = p_id FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  at := clock_timestamp();
  DELETE FROM dlock.wait WHERE id = p_id AND token = p_token;
  IF FOUND THEN
    UPDATE dlock.key SET queued = greatest(queued - 1, 0) WHERE id = p_id;
  END IF;
  IF k.token = p_token AND k.until > at THEN
    held := true;
    was_asked := k.asked;
    UPDATE dlock.key SET
        token = CASE WHEN p_rest > 0 THEN token ELSE '' END,
        until = CASE WHEN p_rest > 0 THEN at + dlock.us1(p_rest)
          ELSE 'epoch' END
      WHERE id = p_id;
  ELSIF k.shared > 0 THEN
    UPDATE dlock.hold SET until = at + dlock.us1(greatest(p_rest, 0))
      WHERE id = p_id AND token = p_token AND until > at
      RETURNING true, asked INTO held, was_asked;
    IF NOT FOUND THEN
      held := false;
      was_asked := false;
    END IF;
  END IF;
  PERFORM dlock.grant1(p_id, ''::bytea, 0);
END $$;

-- The time of a hold. p_span 0: it stays; p_exactly: it may get shorter.
-- rest: what is left, -1: it is over. Never makes a hold.
CREATE OR REPLACE FUNCTION dlock.extend1(p_id bytea, p_token bytea,
  p_span bigint, p_exactly bigint, OUT rest bigint, OUT was_asked boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
BEGIN
  UPDATE dlock.key SET until = CASE
      WHEN p_span = 0 THEN until
      WHEN p_exactly = 1 THEN clock_timestamp() + dlock.us1(p_span)
      ELSE greatest(until, clock_timestamp() + dlock.us1(p_span)) END
    WHERE id = p_id AND token = p_token AND until > clock_timestamp()
    RETURNING dlock.left1(until), asked INTO rest, was_asked;
  IF FOUND THEN
    RETURN;
  END IF;
  UPDATE dlock.hold SET until = CASE
      WHEN p_span = 0 THEN until
      WHEN p_exactly = 1 THEN clock_timestamp() + dlock.us1(p_span)
      ELSE greatest(until, clock_timestamp() + dlock.us1(p_span)) END
    WHERE id = p_id AND token = p_token AND until > clock_timestamp()
    RETURNING dlock.left1(until), asked INTO rest, was_asked;
  IF NOT FOUND THEN
    rest := -1;
    was_asked := false;
  END IF;
END $$;

-- Renews many holds. rest as above; -2: the row is locked by somebody, and
-- nothing is known. Waits for nobody.
CREATE OR REPLACE FUNCTION dlock.renew1(p_ids bytea[], p_tokens bytea[],
  p_spans bigint[], OUT at bigint, OUT rest bigint, OUT was_asked boolean)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v record;
BEGIN
  FOR v IN SELECT * FROM unnest(p_ids, p_tokens, p_spans)
      WITH ORDINALITY AS u (id, token, span, n) LOOP
    at := v.n - 1;
    UPDATE dlock.key k SET
        until = greatest(k.until, clock_timestamp() + dlock.us1(v.span))
      FROM (SELECT 1 FROM dlock.key l WHERE l.id = v.id AND l.token = v.token
        FOR NO KEY UPDATE SKIP LOCKED) l
      WHERE k.id = v.id AND k.token = v.token AND k.until > clock_timestamp()
      RETURNING dlock.left1(k.until), k.asked INTO rest, was_asked;
    IF NOT FOUND THEN
      UPDATE dlock.hold h SET
          until = greatest(h.until, clock_timestamp() + dlock.us1(v.span))
        FROM (SELECT 1 FROM dlock.hold l WHERE l.id = v.id
          AND l.token = v.token FOR NO KEY UPDATE SKIP LOCKED) l
        WHERE h.id = v.id AND h.token = v.token AND h.until > clock_timestamp()
        RETURNING dlock.left1(h.until), h.asked INTO rest, was_asked;
    END IF;
    IF NOT FOUND THEN
      was_asked := false;
      PERFORM 1 FROM dlock.key k
        WHERE k.id = v.id AND k.token = v.token AND k.until > clock_timestamp()
        UNION ALL SELECT 1 FROM dlock.hold h
        WHERE h.id = v.id AND h.token = v.token AND h.until > clock_timestamp();
      rest := CASE WHEN FOUND THEN -2 ELSE -1 END;
    END IF;
    RETURN NEXT;
  END LOOP;
END $$;

-- Ends all holds and lets the next ones in. The fence rises, so that the exact
-- check of a broken holder fails at once.
CREATE OR REPLACE FUNCTION dlock.break1(p_id bytea, OUT held boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
  k dlock.key;
  h record;
BEGIN
  held := false;
  SELECT * INTO k FROM dlock.key WHERE id = p_id FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF k.until > clock_timestamp() THEN
    held := true;
    PERFORM dlock.tell1('b', k.token);
  END IF;
  FOR h IN DELETE FROM dlock.hold WHERE id = p_id RETURNING token LOOP
    held := true;
    PERFORM dlock.tell1('b', h.token);
  END LOOP;
  UPDATE dlock.key SET fence = greatest(fence + 1, dlock.seed1()), token = '',
      until = 'epoch', shared = 0
    WHERE id = p_id;
  PERFORM dlock.grant1(p_id, ''::bytea, 0);
END $$;

-- Asks all holders to let go.
CREATE OR REPLACE FUNCTION dlock.revoke1(p_id bytea, OUT held boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
  k dlock.key;
  h record;
BEGIN
  held := false;
  SELECT * INTO k FROM dlock.key WHERE id = p_id FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF k.until > clock_timestamp() THEN
    held := true;
    UPDATE dlock.key SET asked = true WHERE id = p_id;
    PERFORM dlock.tell1('r', k.token);
  END IF;
  FOR h IN UPDATE dlock.hold SET asked = true
      WHERE id = p_id AND until > clock_timestamp() RETURNING token LOOP
    held := true;
    PERFORM dlock.tell1('r', h.token);
  END LOOP;
END $$;

-- An exclusive hold becomes a reader's, with its time and fence. Repeatable.
CREATE OR REPLACE FUNCTION dlock.downgrade1(p_id bytea, p_token bytea,
  OUT held boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
  k dlock.key;
BEGIN
  SELECT * INTO k FROM dlock.key WHERE id = p_id FOR UPDATE;
  held := FOUND;
  IF NOT held THEN
    RETURN;
  END IF;
  IF k.token = p_token AND k.until > clock_timestamp() THEN
    INSERT INTO dlock.hold (id, token, units, cap, fence, until, asked, since,
        owner, value)
      VALUES (p_id, p_token, 1, 0, k.fence, k.until, k.asked, k.since, k.owner,
        k.value);
    UPDATE dlock.key SET token = '', until = 'epoch', shared = shared + 1
      WHERE id = p_id;
    PERFORM dlock.grant1(p_id, ''::bytea, 0);
    RETURN;
  END IF;
  PERFORM 1 FROM dlock.hold WHERE id = p_id AND token = p_token
    AND until > clock_timestamp();
  held := FOUND;
END $$;

-- Another value for an exclusive hold.
CREATE OR REPLACE FUNCTION dlock.publish1(p_id bytea, p_token bytea,
  p_value bytea, OUT held boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
BEGIN
  UPDATE dlock.key SET value = p_value
    WHERE id = p_id AND token = p_token AND until > clock_timestamp();
  held := FOUND;
END $$;

-- The hold of p_old becomes that of p_new. Repeatable. rest as in extend1.
-- p_owner NULL: its name stays.
CREATE OR REPLACE FUNCTION dlock.attach1(p_id bytea, p_old bytea, p_new bytea,
  p_span bigint, p_owner bytea, OUT rest bigint, OUT was_asked boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
  k dlock.key;
BEGIN
  SELECT * INTO k FROM dlock.key WHERE id = p_id FOR UPDATE;
  IF k.token = p_old AND k.until > clock_timestamp() THEN
    UPDATE dlock.key SET token = p_new, owner = coalesce(p_owner, owner)
      WHERE id = p_id;
  ELSE
    UPDATE dlock.hold SET token = p_new, owner = coalesce(p_owner, owner)
      WHERE id = p_id AND token = p_old AND until > clock_timestamp();
  END IF;
  SELECT e.rest, e.was_asked INTO attach1.rest, attach1.was_asked
    FROM dlock.extend1(p_id, p_new, p_span, 0) e;
END $$;

-- Holders (what 0) and waiters (what 1), at most 1,000 each.
CREATE OR REPLACE FUNCTION dlock.inspect1(p_id bytea, OUT what integer,
  OUT units bigint, OUT cap bigint, OUT fence bigint, OUT rest bigint,
  OUT age bigint, OUT owner bytea, OUT value bytea)
RETURNS SETOF record LANGUAGE sql VOLATILE AS $$
  SELECT 0, 0::bigint, 0::bigint, k.fence, dlock.left1(k.until),
      -least(0, (extract(epoch FROM k.since - clock_timestamp())
        * 1000000)::bigint), k.owner, k.value
    FROM dlock.key k WHERE k.id = p_id AND k.until > clock_timestamp()
  UNION ALL
  (SELECT 0, h.units, h.cap, h.fence, dlock.left1(h.until),
      -least(0, (extract(epoch FROM h.since - clock_timestamp())
        * 1000000)::bigint), h.owner, h.value
    FROM dlock.hold h WHERE h.id = p_id AND h.until > clock_timestamp()
    ORDER BY h.fence LIMIT 1000)
  UNION ALL
  (SELECT 1, w.units, w.cap, 0::bigint, 0::bigint,
      -least(0, (extract(epoch FROM w.since - clock_timestamp())
        * 1000000)::bigint), w.owner, w.value
    FROM dlock.wait w WHERE w.id = p_id AND w.alive > clock_timestamp()
    ORDER BY w.place LIMIT 1000)
$$;

-- A page of the keys from p_from on, behind p_behind and before p_end (NULL:
-- no end), that are held or waited for.
CREATE OR REPLACE FUNCTION dlock.list1(p_from bytea, p_behind bytea,
  p_end bytea, p_limit bigint)
RETURNS SETOF bytea LANGUAGE sql VOLATILE AS $$
  SELECT k.id FROM dlock.key k
    WHERE k.id >= p_from AND k.id > p_behind
      AND (p_end IS NULL OR k.id < p_end)
      AND (k.until > clock_timestamp()
        OR k.shared > 0 AND EXISTS (SELECT 1 FROM dlock.hold h
          WHERE h.id = k.id AND h.until > clock_timestamp())
        OR k.queued > 0 AND EXISTS (SELECT 1 FROM dlock.wait w
          WHERE w.id = k.id AND w.alive > clock_timestamp()))
    ORDER BY k.id LIMIT p_limit
$$;

-- Runs a statement while the token holds, and returns how many rows it
-- concerned; -1: the hold is over, and nothing was done. A grant must write the
-- row that is share-locked here, so nobody holds the key before the COMMIT. The
-- statement's $1 and so on are texts; it fails if it has more than p_words.
CREATE OR REPLACE FUNCTION dlock.guard2(p_id bytea, p_token bytea,
  p_statement text, p_words text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
  k dlock.key;
  n bigint;
BEGIN
  SELECT * INTO k FROM dlock.key WHERE id = p_id FOR SHARE;
  IF NOT FOUND THEN
    RETURN -1;
  END IF;
  IF k.token <> p_token OR k.until <= clock_timestamp() THEN
    PERFORM 1 FROM dlock.hold WHERE id = p_id AND token = p_token
      AND until > clock_timestamp();
    IF NOT FOUND THEN
      RETURN -1;
    END IF;
  END IF;
  CASE cardinality(p_words)
  WHEN 0 THEN EXECUTE p_statement;
  WHEN 1 THEN EXECUTE p_statement USING p_words[1];
  WHEN 2 THEN EXECUTE p_statement USING p_words[1], p_words[2];
  WHEN 3 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3];
  WHEN 4 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4];
  WHEN 5 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5];
  WHEN 6 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6];
  WHEN 7 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7];
  WHEN 8 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8];
  WHEN 9 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9];
  WHEN 10 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10];
  WHEN 11 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10], p_words[11];
  WHEN 12 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10], p_words[11], p_words[12];
  WHEN 13 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10], p_words[11], p_words[12], p_words[13];
  WHEN 14 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10], p_words[11], p_words[12], p_words[13], p_words[14];
  WHEN 15 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10], p_words[11], p_words[12], p_words[13], p_words[14],
    p_words[15];
  WHEN 16 THEN EXECUTE p_statement USING p_words[1], p_words[2], p_words[3],
    p_words[4], p_words[5], p_words[6], p_words[7], p_words[8], p_words[9],
    p_words[10], p_words[11], p_words[12], p_words[13], p_words[14],
    p_words[15], p_words[16];
  END CASE;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;

-- Forgets keys that nobody used for p_age. Passes over rows that are locked.
CREATE OR REPLACE FUNCTION dlock.sweep1(p_age bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  at timestamptz := clock_timestamp() - dlock.us1(p_age);
  k record;
  n bigint := 0;
BEGIN
  FOR k IN SELECT l.id FROM dlock.key l
      WHERE l.until < at AND l.since < at
        AND NOT EXISTS (SELECT 1 FROM dlock.hold h
          WHERE h.id = l.id AND h.until > at)
        AND NOT EXISTS (SELECT 1 FROM dlock.wait w
          WHERE w.id = l.id AND w.alive > at)
      LIMIT 1000 FOR UPDATE SKIP LOCKED LOOP
    DELETE FROM dlock.hold WHERE id = k.id;
    DELETE FROM dlock.wait WHERE id = k.id;
    DELETE FROM dlock.key WHERE id = k.id;
    n := n + 1;
  END LOOP;
  RETURN n;
END $$;
