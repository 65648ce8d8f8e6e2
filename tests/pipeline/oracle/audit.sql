-- A verdict at a time, the doubts about a rejection by asking each process.
WITH doubt AS (
    SELECT a.id FROM attempts a, processes p
    WHERE a.rejections > 0
      AND (p.born_at IS NULL OR p.born_at <= a.rejected_at + 10)
      AND (p.ended_at IS NULL OR p.ended_at >= a.published - 10)
      AND (NOT p.complete OR (p.ended_at IS NULL AND p.last_at < a.rejected_at + 10))
),
judged AS (
    SELECT a.*, p.liveness, w.ended_at IS NOT NULL OR w.last_at >= p.ended_at + 30 AS reported,
           p.complete AND coalesce(w.complete, false) AS whole,
           a.published IS NOT NULL AND a.id NOT IN (SELECT id FROM doubt) AS proven
    FROM attempts a
    LEFT JOIN processes p ON p.node = a.node AND p.pid = a.pid AND p.boot = a.boot
    LEFT JOIN processes w ON w.node = p.node AND w.boot = p.worker
)
SELECT id, 'DUPLICATE' AS verdict FROM judged WHERE starts > 1
UNION ALL
SELECT id, 'DEAD_LETTERED' FROM judged WHERE starts = 1 AND rejections > 0
    AND NOT started_at > rejected_at
UNION ALL
SELECT id, 'DEAD_LETTERED' FROM judged WHERE starts = 0 AND finishes > 0 AND rejections > 0
UNION ALL
SELECT id, CASE WHEN proven THEN 'REPLAYABLE' ELSE 'UNKNOWN' END FROM judged
    WHERE starts = 0 AND finishes = 0 AND rejections > 0
UNION ALL
SELECT id, 'UNKNOWN' FROM judged WHERE starts = 0 AND rejections = 0
UNION ALL
SELECT id, CASE WHEN finishes > 0 THEN 'FINISHED'
                WHEN whole IS NOT TRUE OR liveness = 'silent' THEN 'UNKNOWN'
                WHEN liveness = 'alive' THEN 'RUNNING'
                WHEN reported THEN 'LOST' ELSE 'UNKNOWN' END
FROM judged WHERE starts = 1 AND (rejections = 0 OR started_at > rejected_at)
