-- Gold: figures that people look at. A message id that came twice counts once.

CREATE MATERIALIZED VIEW gold_traffic_by_minute AS
SELECT
  date_trunc('minute', timestamp) AS minute,
  exchange,
  routing_key,
  tenant,
  count(DISTINCT coalesce(message_id, concat(stream, '/', offset))) AS messages,
  sum(octet_length(body)) AS bytes,
  percentile_approx(unix_millis(timestamp) - try_cast(headers['x-published-at-ms'] AS BIGINT), 0.99) AS latency_p99_ms
FROM silver_messages
GROUP BY ALL;

CREATE MATERIALIZED VIEW gold_dead_letters AS
SELECT
  coalesce(last_death_reason, first_death_reason) AS reason,
  coalesce(last_death_queue, first_death_queue) AS queue,
  count(*) AS letters,
  max(death_count) AS most_deaths
FROM bronze_dead_letters
GROUP BY ALL;
