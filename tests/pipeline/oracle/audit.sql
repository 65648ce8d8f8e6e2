-- A verdict at a time, the doubts about each attempt by asking each doubt.
WITH touched AS (
    SELECT a.id, d.open, d.since,
           (d.since < a.rejected_at + 10 AND d.until >= a.published_first - 10)
               OR a.published_first - 10 > a.rejected_at + 10 AS between,
           d.until >= least(
               coalesce(a.published_first, '-infinity'),
               coalesce(a.started_at, a.published_first, '-infinity')
           ) - 10 AS later
    FROM attempts a, doubts d
    WHERE d.queue IS NULL OR d.queue = a.queue
),
lasting AS (SELECT node, pid, boot, max(until) AS until FROM doubts WHERE NOT open GROUP BY ALL),
judged AS (
    SELECT a.*, p.liveness, p.boot IS NOT NULL AS known, p.ended_at,
           coalesce(w.ended_at IS NOT NULL OR w.last_at >= p.ended_at + 30, false) AS reported,
           coalesce(o.until > a.started_at, false) OR coalesce(v.until > a.started_at, false) AS gap,
           a.published_first IS NOT NULL AND a.admissions = 0
               AND a.id NOT IN (SELECT id FROM touched WHERE between) AS unstarted,
           a.id NOT IN (SELECT id FROM touched WHERE later AND NOT open) AS once,
           a.id NOT IN (SELECT id FROM touched WHERE open AND since < p.ended_at + 30) AS heard
    FROM attempts a
    LEFT JOIN processes p ON p.node = a.node AND p.pid = a.pid AND p.boot = a.boot
    LEFT JOIN processes w ON w.node = p.node AND w.boot = p.worker
    LEFT JOIN lasting o ON o.node = p.node AND o.boot = p.boot
    LEFT JOIN lasting v ON v.node = w.node AND v.boot = w.boot
)
SELECT id, 'DUPLICATE' AS verdict FROM judged WHERE starts > 1
UNION ALL
SELECT id, 'DEAD_LETTERED' FROM judged WHERE starts = 1
    AND rejections > 0 AND NOT started_at > rejected_at + 10
UNION ALL
SELECT id, 'DEAD_LETTERED' FROM judged WHERE starts = 0 AND finishes > 0 AND rejections > 0
UNION ALL
SELECT id, CASE WHEN unstarted THEN 'REPLAYABLE' ELSE 'UNKNOWN' END FROM judged
    WHERE starts = 0 AND finishes = 0 AND rejections > 0
UNION ALL
SELECT id, 'UNKNOWN' FROM judged WHERE starts = 0 AND rejections = 0
UNION ALL
SELECT id, CASE WHEN finishes > 0 THEN CASE WHEN once THEN 'FINISHED' ELSE 'UNKNOWN' END
                WHEN NOT known OR gap OR liveness = 'silent' THEN 'UNKNOWN'
                WHEN liveness = 'alive' THEN 'RUNNING'
                WHEN reported AND once AND heard THEN 'LOST' ELSE 'UNKNOWN' END
FROM judged WHERE starts = 1 AND (rejections = 0 OR started_at > rejected_at + 10)
