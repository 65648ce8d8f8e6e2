WITH runs AS (SELECT task, cost_key, runtime AS x FROM attempts WHERE runtime IS NOT NULL),
keyed AS (SELECT task, cost_key, count(*) AS n, avg(x) AS m FROM runs GROUP BY ALL),
tasks AS (SELECT task, count(*) AS total, avg(x) AS mean FROM runs GROUP BY ALL),
inside AS (
    SELECT r.task, sum(pow(r.x - k.m, 2)) AS squares
    FROM runs r JOIN keyed k ON k.task = r.task AND k.cost_key IS NOT DISTINCT FROM r.cost_key
    GROUP BY r.task
),
spread AS (
    SELECT t.task, t.total, t.mean, count(*) AS keys, sum(k.n * pow(k.m - t.mean, 2)) AS across,
           t.total - sum(k.n * k.n) / t.total AS size
    FROM tasks t JOIN keyed k USING (task) GROUP BY t.task, t.total, t.mean
),
variances AS (
    SELECT s.task, s.mean, s.size, s.across, s.keys,
           CASE WHEN s.total > s.keys THEN i.squares / (s.total - s.keys) END AS within
    FROM spread s JOIN inside i USING (task)
),
heterogeneous AS (
    SELECT task, mean, within,
           CASE WHEN size > 0 THEN (across - (keys - 1) * within) / size END AS between_
    FROM variances
)
SELECT k.task, k.cost_key, k.n, k.m AS mean, h.mean AS task_mean,
       CASE WHEN coalesce(h.between_, 0) > 0 THEN
           h.mean + (k.m - h.mean) * k.n / (k.n + h.within / h.between_)
       ELSE h.mean END AS estimate
FROM keyed k JOIN heterogeneous h USING (task)
