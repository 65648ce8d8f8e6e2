-- Each start by itself: who had something waiting at that moment, and what was each of them due?
WITH mine AS (
    SELECT *, split_part(coalesce(key, ''), '/', 1) AS tenant,
           CASE WHEN contains(coalesce(key, ''), '/') THEN split_part(key, '/', 2) ELSE '' END AS part,
           greatest(published, coalesce(started_at, rejected_at)) AS until
    FROM attempts
    WHERE queue IN (SELECT queue FROM attempts WHERE key IS NOT NULL) AND published IS NOT NULL
      AND (started_at IS NOT NULL OR rejected_at IS NOT NULL)
), members AS (
    SELECT queue, 'tenant' AS level, '' AS among, tenant, '' AS part, published, until FROM mine
    WHERE until > published
    UNION ALL
    SELECT queue, 'part', tenant, tenant, part, published, until FROM mine
    WHERE part <> '' AND until > published
), served AS (
    SELECT row_number() OVER () AS number, queue, level, among, tenant, part, moment, amount,
           ceil(moment / $interval) - 1 AS bucket
    FROM (
        SELECT queue, 'tenant' AS level, '' AS among, tenant, '' AS part, started_at AS moment,
               coalesce(cost, 1) AS amount
        FROM mine WHERE starts > 0 AND until > published
        UNION ALL
        SELECT queue, 'part', tenant, tenant, part, started_at, coalesce(cost, 1)
        FROM mine WHERE starts > 0 AND until > published AND part <> ''
    )
), there AS (
    SELECT DISTINCT s.number, s.queue, s.level, s.among, s.bucket, s.moment, s.amount,
           s.tenant AS to_tenant, s.part AS to_part, m.tenant, m.part
    FROM served s JOIN members m ON m.queue = s.queue AND m.level = s.level AND m.among = s.among
        AND m.published <= s.moment AND s.moment <= m.until
), weighed AS (
    SELECT t.*, CASE WHEN level = 'part' THEN 1 ELSE coalesce(
        (SELECT weight FROM weights w WHERE w.tenant = t.tenant AND w.since <= t.moment
         ORDER BY w.since DESC LIMIT 1), 1) END AS weight
    FROM there t
), contended AS (
    SELECT *, count(*) OVER (PARTITION BY number) AS n,
           sum(weight) OVER (PARTITION BY number) AS weights
    FROM weighed
)
SELECT queue, level, bucket, tenant, part,
       sum(CASE WHEN tenant = to_tenant AND part = to_part THEN amount ELSE 0 END) AS served,
       sum(amount * weight / weights) AS due,
       sum(amount) AS total
FROM contended WHERE n >= 2 GROUP BY ALL
