-- Each run and each worker by itself: how much of it lies within each interval that it touches?
WITH runs AS (
    SELECT started_at AS since, started_at + runtime AS until, 1 AS weight
    FROM attempts WHERE started_at IS NOT NULL AND runtime > 0
),
workers AS (
    SELECT dated_at AS since, last_at AS until, concurrency AS weight
    FROM processes WHERE boot = worker AND concurrency > 0
),
busy AS (
    SELECT bucket, sum(least(until, (bucket + 1) * $interval)
                       - greatest(since, bucket * $interval)) AS n
    FROM (SELECT *, unnest(range(CAST(floor(since / $interval) AS BIGINT),
                                 CAST(ceil(until / $interval) AS BIGINT))) AS bucket FROM runs)
    GROUP BY bucket
),
there AS (
    SELECT bucket, sum(weight * (least(until, (bucket + 1) * $interval)
                                 - greatest(since, bucket * $interval))) AS n
    FROM (SELECT *, unnest(range(CAST(floor(since / $interval) AS BIGINT),
                                 CAST(ceil(until / $interval) AS BIGINT))) AS bucket FROM workers)
    GROUP BY bucket
)
SELECT t.bucket * $interval AS since, coalesce(b.n, 0) AS busy_seconds, t.n AS slot_seconds
FROM there t
LEFT JOIN busy b ON b.bucket = t.bucket
WHERE t.n > 0
