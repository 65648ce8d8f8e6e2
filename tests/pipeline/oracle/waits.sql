SELECT queue, count(*) AS started, count(published) AS timed,
       count(*) FILTER (started_at < published) AS skewed,
       quantile_disc(started_at - published, 0.5) AS p50,
       quantile_disc(started_at - published, 0.95) AS p95,
       quantile_disc(started_at - published, 0.99) AS p99
FROM attempts WHERE starts > 0 GROUP BY queue
