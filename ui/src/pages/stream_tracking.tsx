// How far named consumers of a stream have come.
import type { JSX } from "preact";
import { at } from "../api";
import { useFetched } from "../fetching";
import { count } from "../format";
import { Card, Empty, Failure } from "../parts/basics";
import { PlainTable } from "../parts/table";

interface Tracked {
  offsets: Record<string, number>;
  lags: Record<string, number>;
}

export function StreamTracking({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const { data, error } = useFetched<Tracked>(at`/stream/${vhost}/${name}/tracking`, 5000);
  const rows = Object.entries(data?.offsets ?? {}).map(([consumer, offset]) => ({ name: consumer, offset, lag: data?.lags[consumer] }));
  return (
    <Card flush title="Stored offsets">
      <Failure error={error} />
      {data && rows.length === 0 && <Empty title="No consumer has stored an offset" />}
      {rows.length > 0 && (
        <PlainTable
          label="Stored offsets"
          rows={rows}
          rowKey={(row) => row.name}
          columns={[
            { id: "name", title: "Consumer", show: (row) => <code>{row.name}</code> },
            { id: "offset", title: "Done with offset", numeric: true, show: (row) => count(row.offset) },
            { id: "lag", title: "Behind by", numeric: true, show: (row) => count(row.lag) },
          ]}
        />
      )}
    </Card>
  );
}
