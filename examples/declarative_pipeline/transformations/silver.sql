-- Silver: bodies that are what their content type says, and those that are not.

CREATE TEMPORARY VIEW parsed AS
SELECT
  *,
  headers['x-tenant'] AS tenant,
  CAST(body AS STRING) AS payload,
  content_type = 'application/json' AND try_parse_json(CAST(body AS STRING)) IS NULL AS is_malformed
FROM STREAM bronze_messages;

CREATE STREAMING TABLE silver_messages AS
SELECT * EXCEPT (is_malformed) FROM STREAM parsed WHERE NOT coalesce(is_malformed, false);

CREATE STREAMING TABLE silver_quarantine AS
SELECT * EXCEPT (is_malformed) FROM STREAM parsed WHERE coalesce(is_malformed, false);
