-- Each start by itself: who was backlogged at that moment, and what was each of them due of it?
WITH counted AS (
    SELECT a.*, CASE WHEN p.costs IN ('one', 'custom') THEN coalesce(a.cost, 1)
                     ELSE a.runtime END AS amount
    FROM attempts a
    JOIN processes p ON p.node = a.node AND p.pid = a.pid AND p.boot = a.boot
    WHERE a.starts > 0
), worked AS (
    SELECT row_number() OVER () AS number, node, boot AS worker, queue, started_at AS at, amount,
           coalesce(runtime, 0) AS runtime, floor(started_at / $interval) AS bucket
    FROM counted WHERE amount IS NOT NULL
), together AS (
    SELECT w.number, w.bucket, w.at, w.amount, w.runtime, w.queue AS served, b.queue, b.quantum,
           b.level, w.node, w.worker
    FROM worked w
    JOIN backlog own ON own.node = w.node AND own.boot = w.worker AND own.queue = w.queue
        AND own.since <= w.at AND w.at < own.until AND (own.state = 'ready' OR own.starved)
    JOIN backlog b ON b.node = w.node AND b.boot = w.worker AND b.level = own.level
        AND b.since <= w.at AND w.at < b.until AND (b.state = 'ready' OR b.starved)
), contended AS (
    SELECT *, count(*) OVER (PARTITION BY number) AS n,
           sum(quantum) OVER (PARTITION BY number) AS quanta
    FROM together
)
SELECT node, worker, queue, bucket,
       sum(CASE WHEN queue = served THEN amount ELSE 0 END) AS served,
       sum(CASE WHEN queue = served THEN runtime ELSE 0 END) AS seconds,
       sum(amount * quantum / quanta) AS due,
       sum(amount) AS total
FROM contended WHERE n >= 2 GROUP BY ALL
