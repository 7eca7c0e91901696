-- dlock's tables and procedures in MariaDB 10.4, MySQL 5.7 or newer. dlock runs
-- this by itself where its account may CREATE and CREATE ROUTINE; else a DBA
-- does: dlock schema mysql | mysql DATABASE. It may be run again, but on
-- MySQL before 8.0.29. For other names, replace each "dlock_".
--
-- R1  The row of dlock_key is locked first, then rows of that key, and never
--     rows of a second key. A statement that deletes or locks names a whole
--     primary key, because a scan waits for rows of other keys. So no cycle
--     arises. Renewals and sweeps of many keys do not wait for rows.
-- R2  No lock on a row outlives the call: autocommit, or a transaction inside
--     of it that an error undoes.
-- R3  Only UTC_TIMESTAMP(6) counts. It is when a statement began, so it is
--     asked anew behind each lock.
-- R4  A key is held alone until dlock_key.until. Sharers stand in dlock_hold,
--     and `shared` counts them, `queued` those in dlock_wait.
-- R5  Each grant writes the row of dlock_key with a larger fence. A row that is
--     missing or old still gives a larger one, because 64 a ms since September
--     2020 is the least.
-- R6  A hold whose time is over is over, although nobody came.
-- R7  Waiters are granted in the order of `place`. A waiter that did not ask
--     itself gets a claim, and finds it by asking again.
--
-- The names of procedures carry a version, because old and new programs may use
-- the tables at the same time. Times are in microseconds. There are no
-- functions: where a binary log is written, only an administrator may make
-- those.
DELIMITER //
SET SESSION sql_mode = 'STRICT_ALL_TABLES' //

CREATE TABLE IF NOT EXISTS dlock_key (
  id VARBINARY(768) NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL,
  token VARBINARY(64) NOT NULL DEFAULT '',
  until DATETIME(6) NOT NULL DEFAULT '2000-01-01',
  shared INT NOT NULL DEFAULT 0,
  queued INT NOT NULL DEFAULT 0,
  asked TINYINT NOT NULL DEFAULT 0,
  since DATETIME(6) NOT NULL DEFAULT '2000-01-01',
  owner VARBINARY(96),
  value BLOB
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC //

CREATE TABLE IF NOT EXISTS dlock_hold (
  id VARBINARY(768) NOT NULL,
  token VARBINARY(64) NOT NULL,
  units BIGINT NOT NULL,
  cap BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  until DATETIME(6) NOT NULL,
  asked TINYINT NOT NULL DEFAULT 0,
  since DATETIME(6) NOT NULL,
  owner VARBINARY(96),
  value BLOB,
  PRIMARY KEY (id, token),
  UNIQUE KEY (id, fence)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC //

CREATE TABLE IF NOT EXISTS dlock_wait (
  id VARBINARY(768) NOT NULL,
  place BIGINT NOT NULL,
  token VARBINARY(64) NOT NULL,
  units BIGINT NOT NULL,
  cap BIGINT NOT NULL,
  claim BIGINT NOT NULL,
  alive DATETIME(6) NOT NULL,
  since DATETIME(6) NOT NULL,
  owner VARBINARY(96),
  value BLOB,
  PRIMARY KEY (id, place)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC //

-- The admission rule: gives to the heads of the queue while they fit. The
-- caller has locked the key's row. p_mine gets p_span, all others a claim.
-- p_fence: p_mine's, or NULL.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_grant1(p_id VARBINARY(768), p_mine VARBINARY(64), p_span BIGINT,
  OUT p_fence BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_until, w_alive DATETIME(6);
  DECLARE v_fence, v_shared, v_queued BIGINT;
  DECLARE v_used, v_cap BIGINT DEFAULT 0;
  DECLARE w_place, w_units, w_cap, w_span BIGINT;
  DECLARE w_token VARBINARY(64);
  DECLARE w_owner VARBINARY(96);
  DECLARE w_value BLOB;
  SET p_fence = NULL, v_now = UTC_TIMESTAMP(6);
  SELECT fence, until, shared, queued
    INTO v_fence, v_until, v_shared, v_queued FROM dlock_key WHERE id = p_id;
  IF v_shared > 0 THEN
    past: LOOP
      SET w_token = NULL;
      SELECT token INTO w_token FROM dlock_hold
        WHERE id = p_id AND until <= v_now LIMIT 1;
      IF w_token IS NULL THEN
        LEAVE past;
      END IF;
      DELETE FROM dlock_hold WHERE id = p_id AND token = w_token;
    END LOOP;
    SELECT COUNT(*), COALESCE(SUM(units), 0), COALESCE(MAX(cap), 0)
      INTO v_shared, v_used, v_cap FROM dlock_hold WHERE id = p_id;
  END IF;
  heads: WHILE v_queued > 0 AND v_until <= v_now DO
    SET w_token = NULL;
    SELECT place, token, units, cap, claim, alive, owner, value
      INTO w_place, w_token, w_units, w_cap, w_span, w_alive, w_owner, w_value
      FROM dlock_wait WHERE id = p_id ORDER BY place LIMIT 1;
    IF w_token IS NULL THEN
      SET v_queued = 0;
      LEAVE heads;
    END IF;
    IF w_token = p_mine OR w_alive > v_now THEN
      IF v_shared > 0 AND (w_units = 0 OR w_cap <> v_cap
          OR v_cap > 0 AND v_used + w_units > v_cap) THEN
        LEAVE heads;
      END IF;
      SET v_fence = GREATEST(v_fence + 1, 1000000000000 + TIMESTAMPDIFF(
        MICROSECOND, '2020-09-13 12:26:40', UTC_TIMESTAMP(6)) * 64 DIV 1000);
      IF w_token = p_mine THEN
        SET w_span = p_span, p_fence = v_fence;
      END IF;
      IF w_units = 0 THEN
        SET v_until = v_now + INTERVAL w_span MICROSECOND;
        UPDATE dlock_key SET token = w_token, until = v_until, asked = 0,
            since = v_now, owner = w_owner, value = w_value
          WHERE id = p_id;
      ELSE
        INSERT INTO dlock_hold (id, token, units, cap, fence, until, since,
            owner, value)
          VALUES (p_id, w_token, w_units, w_cap, v_fence,
            v_now + INTERVAL w_span MICROSECOND, v_now, w_owner, w_value);
        SET v_shared = v_shared + 1, v_used = v_used + w_units, v_cap = w_cap;
      END IF;
    END IF;
    DELETE FROM dlock_wait WHERE id = p_id AND place = w_place;
    SET v_queued = v_queued - 1;
  END WHILE;
  UPDATE dlock_key SET fence = v_fence, shared = v_shared, queued = v_queued
    WHERE id = p_id;
END //

-- Who holds the key first, or no row.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_look1(p_id VARBINARY(768))
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  SELECT fence, owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), until)
    FROM dlock_key WHERE id = p_id AND until > UTC_TIMESTAMP(6)
  UNION ALL
  (SELECT h.fence, h.owner, (SELECT TIMESTAMPDIFF(MICROSECOND,
        UTC_TIMESTAMP(6), MIN(l.until)) FROM dlock_hold l
      WHERE l.id = p_id AND l.until > UTC_TIMESTAMP(6))
    FROM dlock_hold h WHERE h.id = p_id AND h.until > UTC_TIMESTAMP(6)
    ORDER BY h.fence LIMIT 1)
  LIMIT 1;
END //

-- Takes a key that is free, or has room. p_how: 0 tries, 1 queues up, 2 keeps a
-- place, and never makes one. p_heard is PostgreSQL's. p_place: 0, or an
-- earlier place. The answer's first column: 0 got it, 1 busy, 2 waits, 3 gone,
-- 4 others share under another limit.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_acquire1(p_id VARBINARY(768), p_token VARBINARY(64), p_span BIGINT,
  p_units BIGINT, p_cap BIGINT, p_how INT, p_claim BIGINT, p_alive BIGINT,
  p_heard INT, p_place BIGINT, p_owner VARBINARY(96), p_value BLOB)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_said, v_new INT;
  DECLARE v_fence, v_place, v_rank, v_rest, v_queued, v_shared, v_other BIGINT;
  DECLARE a_units, a_cap BIGINT;
  DECLARE v_now, v_until, v_alive DATETIME(6);
  DECLARE v_token VARBINARY(64);
  DECLARE v_owner, v_holder VARBINARY(96);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  body: BEGIN
    -- Without a lock: another one holds it alone.
    SELECT token, until, owner, queued INTO v_token, v_until, v_owner, v_queued
      FROM dlock_key WHERE id = p_id;
    SET v_now = UTC_TIMESTAMP(6);
    IF v_until > v_now AND v_token <> p_token THEN
      IF p_how = 0 AND (v_queued = 0 OR p_units = 0) THEN
        SET v_said = 1, v_holder = v_owner;
        LEAVE body;
      ELSEIF p_how = 2 THEN
        SELECT place, alive INTO v_place, v_alive
          FROM dlock_wait WHERE id = p_id AND token = p_token;
        SELECT units, cap INTO a_units, a_cap FROM dlock_wait
          WHERE id = p_id AND place < v_place ORDER BY place DESC LIMIT 1;
        IF v_alive > v_now + INTERVAL (p_alive DIV 2) MICROSECOND
            AND (a_units IS NULL OR p_units = 0 OR a_units = 0
              OR a_cap = p_cap) THEN
          SELECT COUNT(*) INTO v_rank FROM dlock_wait
            WHERE id = p_id AND place < v_place;
          SET v_said = 2, v_holder = v_owner, v_rest = GREATEST(0,
            TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), v_until));
          LEAVE body;
        END IF;
      END IF;
    END IF;

    -- A free mutex.
    IF p_units = 0 AND p_how < 2 THEN
      UPDATE dlock_key SET fence = LAST_INSERT_ID(GREATEST(fence + 1,
          1000000000000 + TIMESTAMPDIFF(MICROSECOND, '2020-09-13 12:26:40',
            UTC_TIMESTAMP(6)) * 64 DIV 1000)),
          token = p_token, since = UTC_TIMESTAMP(6), owner = p_owner,
          value = p_value, asked = 0,
          until = UTC_TIMESTAMP(6) + INTERVAL p_span MICROSECOND
        WHERE id = p_id AND until <= UTC_TIMESTAMP(6) AND shared = 0
          AND queued = 0;
      IF ROW_COUNT() > 0 THEN
        SET v_said = 0, v_fence = LAST_INSERT_ID();
        LEAVE body;
      END IF;
    END IF;

    START TRANSACTION;
    SET v_token = NULL;
    SELECT token, until, fence, shared INTO v_token, v_until, v_fence, v_shared
      FROM dlock_key WHERE id = p_id FOR UPDATE;
    IF v_token IS NULL THEN
      IF p_how = 2 THEN
        SET v_said = 3, v_fence = NULL;
        LEAVE body;
      END IF;
      INSERT INTO dlock_key (id, fence) VALUES (p_id, 0)
        ON DUPLICATE KEY UPDATE id = p_id;
      SELECT token, until, fence, shared
        INTO v_token, v_until, v_fence, v_shared
        FROM dlock_key WHERE id = p_id FOR UPDATE;
    END IF;
    SET v_now = UTC_TIMESTAMP(6);

    -- It holds already: a claim becomes a whole hold.
    IF v_token = p_token AND v_until > v_now THEN
      UPDATE dlock_key
        SET until = GREATEST(until, v_now + INTERVAL p_span MICROSECOND)
        WHERE id = p_id;
      SET v_said = 0;
      LEAVE body;
    END IF;
    SET v_fence = NULL;
    IF v_shared > 0 THEN
      SELECT fence INTO v_fence FROM dlock_hold
        WHERE id = p_id AND token = p_token AND until > v_now;
    END IF;
    IF v_fence IS NOT NULL THEN
      UPDATE dlock_hold
        SET until = GREATEST(until, v_now + INTERVAL p_span MICROSECOND)
        WHERE id = p_id AND token = p_token;
      SET v_said = 0;
      LEAVE body;
    END IF;

    SET v_place = NULL, v_new = 0;
    SELECT place INTO v_place FROM dlock_wait
      WHERE id = p_id AND token = p_token;
    IF v_place IS NOT NULL THEN
      UPDATE dlock_wait SET alive = v_now + INTERVAL p_alive MICROSECOND
        WHERE id = p_id AND place = v_place;
    ELSEIF p_how = 2 THEN
      SET v_said = 3;
      LEAVE body;
    ELSE
      SET v_place = p_place, v_new = 1;
      IF p_place <= 0 OR EXISTS (SELECT 1 FROM dlock_wait
          WHERE id = p_id AND place = p_place) THEN
        SELECT GREATEST(COALESCE(MAX(place), 0) + 1,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v_now))
          INTO v_place FROM dlock_wait WHERE id = p_id;
      END IF;
      INSERT INTO dlock_wait (id, place, token, units, cap, claim, alive,
          since, owner, value)
        VALUES (p_id, v_place, p_token, p_units, p_cap, p_claim,
          v_now + INTERVAL p_alive MICROSECOND, v_now, p_owner, p_value);
      UPDATE dlock_key SET queued = queued + 1 WHERE id = p_id;
    END IF;
    CALL dlock_grant1(p_id, p_token, p_span, v_fence);
    IF v_fence IS NOT NULL THEN
      SET v_said = 0;
      LEAVE body;
    END IF;

    -- One right behind another limit is refused, holder or waiter.
    SET v_said = IF(p_how = 0, 1, 2), a_units = NULL;
    IF p_units > 0 THEN
      SELECT units, cap INTO a_units, a_cap FROM dlock_wait
        WHERE id = p_id AND place < v_place AND alive > v_now
        ORDER BY place DESC LIMIT 1;
      IF a_units IS NULL THEN
        SELECT MAX(cap) INTO v_other FROM dlock_hold
          WHERE id = p_id AND until > v_now;
      ELSEIF a_units > 0 THEN
        SET v_other = a_cap;
      END IF;
      IF v_other <> p_cap THEN
        SET v_said = 4;
      END IF;
    END IF;
    SELECT MIN(until) INTO v_until FROM (
      SELECT until FROM dlock_key WHERE id = p_id AND until > v_now
      UNION ALL
      SELECT until FROM dlock_hold WHERE id = p_id AND until > v_now) x;
    SET v_rest = TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), v_until);
    SELECT owner INTO v_holder FROM (
      SELECT 0 AS fence, owner FROM dlock_key
        WHERE id = p_id AND until > v_now
      UNION ALL
      SELECT fence, owner FROM dlock_hold
        WHERE id = p_id AND until > v_now) x ORDER BY fence LIMIT 1;
    IF v_said = 2 THEN
      SELECT COUNT(*) INTO v_rank FROM dlock_wait
        WHERE id = p_id AND place < v_place;
      LEAVE body;
    END IF;
    DELETE FROM dlock_wait WHERE id = p_id AND place = v_place;
    UPDATE dlock_key SET queued = GREATEST(queued - 1, 0) WHERE id = p_id;
    IF v_new = 0 THEN
      CALL dlock_grant1(p_id, '', 0, v_other);
    END IF;
  END;
  COMMIT;
  SELECT v_said, v_fence, v_place, v_rank, v_rest, v_holder;
END //

-- Ends what the token has here, place or hold, and lets the next ones in.
-- p_rest: how long the hold must still last. Repeatable.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_leave1(p_id VARBINARY(768), p_token VARBINARY(64), p_rest BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_held, v_asked INT DEFAULT 0;
  DECLARE v_none, v_place, v_shared BIGINT;
  DECLARE v_token VARBINARY(64);
  DECLARE v_until, v_now DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  body: BEGIN
    IF p_rest <= 0 THEN
      UPDATE dlock_key SET token = '', until = '2000-01-01',
          asked = LAST_INSERT_ID(asked)
        WHERE id = p_id AND token = p_token AND until > UTC_TIMESTAMP(6)
          AND queued = 0;
      IF ROW_COUNT() > 0 THEN
        SET v_held = 1, v_asked = LAST_INSERT_ID();
        LEAVE body;
      END IF;
    END IF;
    START TRANSACTION;
    SELECT token, until, asked, shared INTO v_token, v_until, v_asked, v_shared
      FROM dlock_key WHERE id = p_id FOR UPDATE;
    IF v_token IS NULL THEN
      LEAVE body;
    END IF;
    SET v_now = UTC_TIMESTAMP(6);
    SELECT place INTO v_place FROM dlock_wait
      WHERE id = p_id AND token = p_token;
    IF v_place IS NOT NULL THEN
      DELETE FROM dlock_wait WHERE id = p_id AND place = v_place;
      UPDATE dlock_key SET queued = GREATEST(queued - 1, 0) WHERE id = p_id;
    END IF;
    IF v_token = p_token AND v_until > v_now THEN
      SET v_held = 1;
      UPDATE dlock_key SET token = IF(p_rest > 0, token, ''),
          until = IF(p_rest > 0, v_now + INTERVAL p_rest MICROSECOND,
            '2000-01-01')
        WHERE id = p_id;
    ELSE
      SET v_asked = 0;
      IF v_shared > 0 THEN
        SELECT 1, asked INTO v_held, v_asked FROM dlock_hold
          WHERE id = p_id AND token = p_token AND until > v_now;
        UPDATE dlock_hold
          SET until = v_now + INTERVAL GREATEST(p_rest, 0) MICROSECOND
          WHERE id = p_id AND token = p_token AND until > v_now;
      END IF;
    END IF;
    CALL dlock_grant1(p_id, '', 0, v_none);
  END;
  COMMIT;
  SELECT v_held, v_asked;
END //

-- The time of a hold. p_span 0: it stays; p_exactly: it may get shorter. The
-- answer: what is left (-1: it is over), and whether it was asked for. Never
-- makes a hold.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_extend1(p_id VARBINARY(768), p_token VARBINARY(64), p_span BIGINT,
  p_exactly INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_asked INT DEFAULT 0;
  DECLARE v_rest BIGINT DEFAULT -1;
  DECLARE v_token VARBINARY(64);
  DECLARE v_until, v_now, v_end DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT token, until, asked INTO v_token, v_until, v_asked
    FROM dlock_key WHERE id = p_id FOR UPDATE;
  SET v_now = UTC_TIMESTAMP(6);
  IF v_token <> p_token OR v_until <= v_now THEN
    SET v_until = NULL, v_asked = 0;
    SELECT until, asked INTO v_until, v_asked FROM dlock_hold
      WHERE id = p_id AND token = p_token AND until > v_now;
  END IF;
  IF v_until IS NOT NULL THEN
    SET v_end = v_until;
    IF p_span > 0 THEN
      SET v_end = v_now + INTERVAL p_span MICROSECOND;
    END IF;
    IF p_exactly <> 1 THEN
      SET v_end = GREATEST(v_end, v_until);
    END IF;
    IF v_token = p_token THEN
      UPDATE dlock_key SET until = v_end WHERE id = p_id;
    ELSE
      UPDATE dlock_hold
        SET until = IF(p_exactly = 1, v_end, GREATEST(until, v_end))
        WHERE id = p_id AND token = p_token;
    END IF;
    SET v_rest = GREATEST(0,
      TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), v_end));
  END IF;
  COMMIT;
  SELECT v_rest, v_asked;
END //

-- Renews many holds. p_list: of each 2 bytes with the length of its id, 8 with
-- its span, 16 of its token, the id. The answer is one text, a line for each:
-- its number, what is left as above (-2: the row is locked by somebody, and
-- nothing is known), whether it was asked for. Where a wait for a row that is
-- over undoes a whole transaction, each is one by itself.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_renew1(p_list LONGBLOB)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_n, v_asked, v_len INT DEFAULT 0;
  DECLARE v_span, v_rest BIGINT;
  DECLARE v_id VARBINARY(768);
  DECLARE v_token, v_holder VARBINARY(64);
  DECLARE v_until, v_end DATETIME(6);
  DECLARE v_out LONGBLOB DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    SET SESSION innodb_lock_wait_timeout = 1;
    RESIGNAL;
  END;
  SET SESSION innodb_lock_wait_timeout = 0;
  IF @@innodb_rollback_on_timeout = 0 THEN
    START TRANSACTION;
  END IF;
  WHILE v_at < LENGTH(p_list) DO
    SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10),
      v_span = CONV(HEX(SUBSTRING(p_list, v_at + 2, 8)), 16, 10),
      v_token = SUBSTRING(p_list, v_at + 10, 16),
      v_id = SUBSTRING(p_list, v_at + 26, v_len), v_at = v_at + 26 + v_len,
      v_holder = NULL, v_until = NULL, v_asked = 0, v_rest = -1;
    one: BEGIN
      DECLARE CONTINUE HANDLER FOR 1205 SET v_rest = -2;
      SELECT token, until, asked INTO v_holder, v_until, v_asked
        FROM dlock_key WHERE id = v_id AND token = v_token
          AND until > UTC_TIMESTAMP(6);
      IF v_holder IS NULL THEN
        SELECT until, asked INTO v_until, v_asked FROM dlock_hold
          WHERE id = v_id AND token = v_token AND until > UTC_TIMESTAMP(6);
      END IF;
      IF v_until IS NULL THEN
        LEAVE one;
      END IF;
      SET v_end = UTC_TIMESTAMP(6) + INTERVAL v_span MICROSECOND;
      IF v_holder IS NOT NULL THEN
        UPDATE dlock_key SET until = GREATEST(until, v_end)
          WHERE id = v_id AND token = v_token AND until > UTC_TIMESTAMP(6);
      ELSE
        UPDATE dlock_hold SET until = GREATEST(until, v_end)
          WHERE id = v_id AND token = v_token AND until > UTC_TIMESTAMP(6);
      END IF;
      IF v_rest = -1 AND ROW_COUNT() > 0 THEN
        SET v_rest = GREATEST(0, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6),
          GREATEST(v_end, v_until)));
      END IF;
    END;
    SET v_out = CONCAT(v_out, v_n, ' ', v_rest, ' ', v_asked, '\n'),
      v_n = v_n + 1;
  END WHILE;
  COMMIT;
  SET SESSION innodb_lock_wait_timeout = 1;
  SELECT v_out;
END //

-- Ends all holds and lets the next ones in. The fence rises, so that the exact
-- check of a broken holder fails at once.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_break1(p_id VARBINARY(768))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_held INT DEFAULT 0;
  DECLARE v_none BIGINT;
  DECLARE v_token VARBINARY(64);
  DECLARE v_until DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT until INTO v_until FROM dlock_key WHERE id = p_id FOR UPDATE;
  IF v_until IS NOT NULL THEN
    SET v_held = v_until > UTC_TIMESTAMP(6);
    holds: LOOP
      SET v_token = NULL;
      SELECT token INTO v_token FROM dlock_hold WHERE id = p_id LIMIT 1;
      IF v_token IS NULL THEN
        LEAVE holds;
      END IF;
      DELETE FROM dlock_hold WHERE id = p_id AND token = v_token;
      SET v_held = 1;
    END LOOP;
    UPDATE dlock_key SET fence = GREATEST(fence + 1, 1000000000000
          + TIMESTAMPDIFF(MICROSECOND, '2020-09-13 12:26:40',
            UTC_TIMESTAMP(6)) * 64 DIV 1000),
        token = '', until = '2000-01-01', shared = 0
      WHERE id = p_id;
    CALL dlock_grant1(p_id, '', 0, v_none);
  END IF;
  COMMIT;
  SELECT v_held;
END //

-- Asks all holders to let go.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_revoke1(p_id VARBINARY(768))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_held INT DEFAULT 0;
  DECLARE v_until DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT until INTO v_until FROM dlock_key WHERE id = p_id FOR UPDATE;
  IF v_until > UTC_TIMESTAMP(6) THEN
    SET v_held = 1;
    UPDATE dlock_key SET asked = 1 WHERE id = p_id;
  END IF;
  IF EXISTS (SELECT 1 FROM dlock_hold
      WHERE id = p_id AND until > UTC_TIMESTAMP(6)) THEN
    SET v_held = 1;
    UPDATE dlock_hold SET asked = 1
      WHERE id = p_id AND until > UTC_TIMESTAMP(6);
  END IF;
  COMMIT;
  SELECT v_held;
END //

-- An exclusive hold becomes a reader's, with its time and fence. Repeatable.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_downgrade1(p_id VARBINARY(768), p_token VARBINARY(64))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_held INT DEFAULT 0;
  DECLARE v_none BIGINT;
  DECLARE v_token VARBINARY(64);
  DECLARE v_until DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT token, until INTO v_token, v_until
    FROM dlock_key WHERE id = p_id FOR UPDATE;
  IF v_token = p_token AND v_until > UTC_TIMESTAMP(6) THEN
    SET v_held = 1;
    INSERT INTO dlock_hold (id, token, units, cap, fence, until, asked, since,
        owner, value)
      SELECT id, token, 1, 0, fence, until, asked, since, owner, value
        FROM dlock_key WHERE id = p_id;
    UPDATE dlock_key SET token = '', until = '2000-01-01', shared = shared + 1
      WHERE id = p_id;
    CALL dlock_grant1(p_id, '', 0, v_none);
  ELSEIF EXISTS (SELECT 1 FROM dlock_hold WHERE id = p_id AND token = p_token
      AND until > UTC_TIMESTAMP(6)) THEN
    SET v_held = 1;
  END IF;
  COMMIT;
  SELECT v_held;
END //

-- Another value for an exclusive hold.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_publish1(p_id VARBINARY(768), p_token VARBINARY(64), p_value BLOB)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_token VARBINARY(64);
  DECLARE v_until DATETIME(6);
  DECLARE v_held INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT token, until INTO v_token, v_until
    FROM dlock_key WHERE id = p_id FOR UPDATE;
  IF v_token = p_token AND v_until > UTC_TIMESTAMP(6) THEN
    SET v_held = 1;
    UPDATE dlock_key SET value = p_value WHERE id = p_id;
  END IF;
  COMMIT;
  SELECT v_held;
END //

-- The hold of p_old becomes that of p_new. Repeatable. The answer is that of
-- extend1. p_owner NULL: its name stays.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_attach1(p_id VARBINARY(768), p_old VARBINARY(64), p_new VARBINARY(64),
  p_span BIGINT, p_owner VARBINARY(96))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_token VARBINARY(64);
  DECLARE v_until DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT token, until INTO v_token, v_until
    FROM dlock_key WHERE id = p_id FOR UPDATE;
  IF v_token = p_old AND v_until > UTC_TIMESTAMP(6) THEN
    UPDATE dlock_key SET token = p_new, owner = COALESCE(p_owner, owner)
      WHERE id = p_id;
  ELSE
    UPDATE dlock_hold SET token = p_new, owner = COALESCE(p_owner, owner)
      WHERE id = p_id AND token = p_old AND until > UTC_TIMESTAMP(6);
  END IF;
  COMMIT;
  CALL dlock_extend1(p_id, p_new, p_span, 0);
END //

-- Holders (what 0) and waiters (what 1), at most 1,000 each: what, units, cap,
-- fence, rest, age, owner, value.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_inspect1(p_id VARBINARY(768))
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  SELECT 0, 0, 0, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), until),
      GREATEST(0, TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6))), owner,
      value
    FROM dlock_key WHERE id = p_id AND until > UTC_TIMESTAMP(6)
  UNION ALL
  (SELECT 0, units, cap, fence,
      TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), until),
      GREATEST(0, TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6))), owner,
      value
    FROM dlock_hold WHERE id = p_id AND until > UTC_TIMESTAMP(6)
    ORDER BY fence LIMIT 1000)
  UNION ALL
  (SELECT 1, units, cap, 0, 0,
      GREATEST(0, TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6))), owner,
      value
    FROM dlock_wait WHERE id = p_id AND alive > UTC_TIMESTAMP(6)
    ORDER BY place LIMIT 1000);
END //

-- A page of the keys from p_from on, behind p_behind and before p_end (NULL:
-- no end), that are held or waited for.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_list1(p_from VARBINARY(768), p_behind VARBINARY(768),
  p_end VARBINARY(768), p_limit INT)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  SELECT k.id FROM dlock_key k
    WHERE k.id >= p_from AND k.id > p_behind
      AND (p_end IS NULL OR k.id < p_end)
      AND (k.until > UTC_TIMESTAMP(6)
        OR k.shared > 0 AND EXISTS (SELECT 1 FROM dlock_hold h
          WHERE h.id = k.id AND h.until > UTC_TIMESTAMP(6))
        OR k.queued > 0 AND EXISTS (SELECT 1 FROM dlock_wait w
          WHERE w.id = k.id AND w.alive > UTC_TIMESTAMP(6)))
    ORDER BY k.id LIMIT p_limit;
END //

-- Runs a statement while the token holds, and tells how many rows it concerned;
-- -1: the hold is over, and nothing was done. A grant must write the row that
-- is share-locked here, so nobody holds the key before the COMMIT. The statement
-- changes rows; one that commits by itself is not guarded. Its ?s are texts in
-- @w1 and so on, p_words of them.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_guard1(p_id VARBINARY(768), p_token VARBINARY(64),
  p_statement LONGTEXT CHARACTER SET utf8mb4, p_words INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_n BIGINT DEFAULT -1;
  DECLARE v_token VARBINARY(64);
  DECLARE v_until DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  SELECT token, until INTO v_token, v_until
    FROM dlock_key WHERE id = p_id LOCK IN SHARE MODE;
  IF v_token = p_token AND v_until > UTC_TIMESTAMP(6)
      OR EXISTS (SELECT 1 FROM dlock_hold WHERE id = p_id AND token = p_token
        AND until > UTC_TIMESTAMP(6)) THEN
    SET @dlock_statement = p_statement;
    PREPARE dlock_guard FROM @dlock_statement;
    CASE p_words
    WHEN 0 THEN EXECUTE dlock_guard;
    WHEN 1 THEN EXECUTE dlock_guard USING @w1;
    WHEN 2 THEN EXECUTE dlock_guard USING @w1, @w2;
    WHEN 3 THEN EXECUTE dlock_guard USING @w1, @w2, @w3;
    WHEN 4 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4;
    WHEN 5 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5;
    WHEN 6 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6;
    WHEN 7 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7;
    WHEN 8 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8;
    WHEN 9 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9;
    WHEN 10 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10;
    WHEN 11 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10, @w11;
    WHEN 12 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10, @w11, @w12;
    WHEN 13 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10, @w11, @w12, @w13;
    WHEN 14 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10, @w11, @w12, @w13, @w14;
    WHEN 15 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10, @w11, @w12, @w13, @w14, @w15;
    WHEN 16 THEN EXECUTE dlock_guard USING @w1, @w2, @w3, @w4, @w5, @w6, @w7,
      @w8, @w9, @w10, @w11, @w12, @w13, @w14, @w15, @w16;
    END CASE;
    SET v_n = GREATEST(ROW_COUNT(), 0);
    DEALLOCATE PREPARE dlock_guard;
  END IF;
  COMMIT;
  SELECT v_n;
END //

-- Forgets keys that nobody used for p_age, until it meets a row that is locked.
CREATE PROCEDURE /*M! IF NOT EXISTS */ /*!80029 IF NOT EXISTS */
dlock_sweep1(p_age BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_n, v_end INT DEFAULT 0;
  DECLARE v_id, v_found VARBINARY(768);
  DECLARE v_at DATETIME(6)
    DEFAULT UTC_TIMESTAMP(6) - INTERVAL p_age MICROSECOND;
  DECLARE c CURSOR FOR SELECT l.id FROM dlock_key l
    WHERE l.until < v_at AND l.since < v_at
      AND NOT EXISTS (SELECT 1 FROM dlock_hold h
        WHERE h.id = l.id AND h.until > v_at)
      AND NOT EXISTS (SELECT 1 FROM dlock_wait w
        WHERE w.id = l.id AND w.alive > v_at)
    LIMIT 1000;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = 1;
  DECLARE CONTINUE HANDLER FOR 1205 SET v_end = 2;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    SET SESSION innodb_lock_wait_timeout = 1;
    RESIGNAL;
  END;
  SET SESSION innodb_lock_wait_timeout = 0;
  START TRANSACTION;
  OPEN c;
  keys_: LOOP
    FETCH c INTO v_id;
    IF v_end > 0 THEN
      LEAVE keys_;
    END IF;
    SET v_found = NULL;
    SELECT l.id INTO v_found FROM dlock_key l
      WHERE l.id = v_id AND l.until < v_at AND l.since < v_at FOR UPDATE;
    IF v_end = 2 THEN
      LEAVE keys_;
    END IF;
    SET v_end = 0;
    IF v_found IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dlock_hold h
          WHERE h.id = v_id AND h.until > v_at)
        AND NOT EXISTS (SELECT 1 FROM dlock_wait w
          WHERE w.id = v_id AND w.alive > v_at) THEN
      DELETE FROM dlock_hold WHERE id = v_id;
      DELETE FROM dlock_wait WHERE id = v_id;
      IF v_end = 2 THEN
        LEAVE keys_;
      END IF;
      SET v_n = v_n + 1;
      DELETE FROM dlock_key WHERE id = v_id;
    END IF;
  END LOOP;
  CLOSE c;
  COMMIT;
  SET SESSION innodb_lock_wait_timeout = 1;
  SELECT v_n;
END //

DELIMITER ;
