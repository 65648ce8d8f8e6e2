-- Which server this is, and when it was started.
-- UPTIME is measured from the same moment as UNIX_TIMESTAMP(), that of the statement.
SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED), @@hostname, @@port
FROM information_schema.GLOBAL_STATUS
WHERE VARIABLE_NAME = 'UPTIME'
