// Tables of things that the server pages, sorts and filters: what is asked for stands in the address.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { withQuery } from "../api";
import { useFetched } from "../fetching";
import { count } from "../format";
import { kept, keep } from "../kept";
import { queried, setQuery } from "../router";
import { Button, Failure, IconButton, Loading } from "./basics";
import { Icon } from "./icons";

export interface Column<T> {
  id: string;
  title: string;
  show: (row: T) => ComponentChildren;
  /** The column that the server sorts by. */
  sort?: string;
  numeric?: boolean;
  /** Hidden unless it is picked. */
  extra?: boolean;
}

interface Page<T> {
  items: T[];
  page: number;
  page_count: number;
  filtered_count: number;
  total_count: number;
}

export interface ServerTableProps<T> {
  name: string;
  path: string;
  query?: Record<string, string | undefined>;
  columns: Column<T>[];
  rowKey: (row: T) => string;
  everyMs?: number;
  /** What the name of the filter field is; none without it. */
  filterLabel?: string;
  defaultSort?: string;
  defaultDescending?: boolean;
  actions?: ComponentChildren;
  bulk?: (chosen: T[], done: () => void) => ComponentChildren;
  empty: ComponentChildren;
  /** Counted up to fetch again. */
  version?: number;
}

const PAGE_SIZES = ["25", "50", "100", "250"];

export function ServerTable<T>(props: ServerTableProps<T>): JSX.Element {
  const sort = queried("sort", props.defaultSort ?? "");
  const descending = queried("desc", props.defaultDescending ? "1" : "") === "1";
  const pageSize = queried("size", kept(`${props.name}.size`) ?? "50");
  const path = withQuery(props.path, {
    ...props.query,
    page: queried("page", "1"),
    page_size: pageSize,
    name: queried("name"),
    use_regex: queried("regex") === "1" ? "true" : undefined,
    sort,
    sort_reverse: descending ? "true" : undefined,
  });
  const { data, error, loading, reload } = useFetched<Page<T>>(path, props.everyMs ?? 5000);
  useEffect(() => {
    if (props.version) reload();
  }, [props.version]);
  useEffect(() => {
    // Rows were deleted meanwhile, or the filter was made narrower.
    if (error.startsWith("Page out of range")) setQuery({ page: undefined });
  }, [error]);
  const [chosen, setChosen] = useState<Map<string, T>>(new Map());
  const [visible, setVisible] = useVisible(props.name, props.columns);
  const columns = props.columns.filter((column) => visible.has(column.id));
  const rows = data?.items ?? [];
  const isBulk = props.bulk !== undefined;
  const everyChosen = rows.length > 0 && rows.every((row) => chosen.has(props.rowKey(row)));
  const choose = (some: T[], on: boolean): void => {
    const next = new Map(chosen);
    for (const row of some) on ? next.set(props.rowKey(row), row) : next.delete(props.rowKey(row));
    setChosen(next);
  };

  return (
    <>
      <div class="toolbar">
        {props.filterLabel && <Filter label={props.filterLabel} />}
        <span class="toolbar-gap" />
        {props.actions}
        <ColumnPicker columns={props.columns} visible={visible} onPick={setVisible} />
      </div>
      {isBulk && chosen.size > 0 && (
        <div class="bulk" role="region" aria-label="Chosen rows">
          <b>{chosen.size} chosen</b>
          {props.bulk?.([...chosen.values()], () => {
            setChosen(new Map());
            reload();
          })}
          <Button kind="quiet" small onClick={() => setChosen(new Map())}>
            Clear
          </Button>
        </div>
      )}
      <Failure error={error} />
      {data === undefined && loading && <Loading what={props.name} />}
      {data !== undefined && rows.length === 0 && (queried("name") === "" ? props.empty : <NoMatch />)}
      {rows.length > 0 && (
        <div class="table-frame" tabIndex={0} role="region" aria-label={props.name}>
          <table>
            <thead>
              <tr>
                {isBulk && (
                  <th class="cell-check">
                    <input type="checkbox" aria-label="Choose all on this page" checked={everyChosen} onInput={(event) => choose(rows, event.currentTarget.checked)} />
                  </th>
                )}
                {columns.map((column) => (
                  <Head key={column.id} column={column} sort={sort} descending={descending} />
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => {
                const key = props.rowKey(row);
                return (
                  <tr key={key} class={chosen.has(key) ? "chosen" : undefined}>
                    {isBulk && (
                      <td class="cell-check">
                        <input type="checkbox" aria-label={`Choose ${key}`} checked={chosen.has(key)} onInput={(event) => choose([row], event.currentTarget.checked)} />
                      </td>
                    )}
                    {columns.map((column) => (
                      <td key={column.id} class={column.numeric ? "numeric" : undefined}>
                        {column.show(row)}
                      </td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {data !== undefined && rows.length > 0 && <Pager page={data} size={pageSize} name={props.name} />}
    </>
  );
}

function Head<T>({ column, sort, descending }: { column: Column<T>; sort: string; descending: boolean }): JSX.Element {
  const isSorted = column.sort !== undefined && column.sort === sort;
  const order = isSorted ? (descending ? "descending" : "ascending") : undefined;
  const turn = (): void => setQuery({ sort: column.sort, desc: (isSorted ? !descending : (column.numeric ?? false)) ? "1" : "0", page: undefined });
  return (
    <th class={column.numeric ? "numeric" : undefined} aria-sort={order} scope="col">
      {column.sort ? (
        <button type="button" onClick={turn}>
          {column.title}
          <span aria-hidden="true" class="sort-mark">{isSorted ? (descending ? "↓" : "↑") : ""}</span>
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

function Filter({ label }: { label: string }): JSX.Element {
  const [text, setText] = useState(queried("name"));
  const regex = queried("regex") === "1";
  useEffect(() => {
    const timer = setTimeout(() => text !== queried("name") && setQuery({ name: text, page: undefined }), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="filter">
      <Icon name="search" />
      <input type="search" placeholder={label} aria-label={label} value={text} onInput={(event) => setText(event.currentTarget.value)} spellcheck={false} />
      <button type="button" class="toggle" aria-pressed={regex} title="The filter is a regular expression" onClick={() => setQuery({ regex: regex ? undefined : "1", page: undefined })}>
        .*<span class="sr-only"> regular expression</span>
      </button>
    </div>
  );
}

function NoMatch(): JSX.Element {
  return (
    <div class="empty">
      <h3>Nothing has “{queried("name")}” in its name</h3>
      <Button onClick={() => setQuery({ name: undefined, regex: undefined, page: undefined })}>Clear the filter</Button>
    </div>
  );
}

function Pager<T>({ page, size, name }: { page: Page<T>; size: string; name: string }): JSX.Element {
  const first = (page.page - 1) * Number(size) + 1;
  return (
    <nav class="pager" aria-label="Pages">
      <span>
        {count(first)}–{count(first + page.items.length - 1)} of {count(page.filtered_count)}
        {page.filtered_count !== page.total_count && ` (${count(page.total_count)} in all)`}
      </span>
      <span class="toolbar-gap" />
      <label>
        Rows{" "}
        <select
          value={size}
          onInput={(event) => {
            keep(`${name}.size`, event.currentTarget.value);
            setQuery({ size: event.currentTarget.value, page: undefined });
          }}
        >
          {PAGE_SIZES.map((one) => (
            <option key={one} value={one} selected={one === size}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <IconButton icon="left" label="Previous page" onClick={() => page.page > 1 && setQuery({ page: String(page.page - 1) })} />
      <span>
        {count(page.page)} / {count(page.page_count)}
      </span>
      <IconButton icon="right" label="Next page" onClick={() => page.page < page.page_count && setQuery({ page: String(page.page + 1) })} />
    </nav>
  );
}

function useVisible<T>(name: string, columns: Column<T>[]): [Set<string>, (ids: Set<string>) => void] {
  const [visible, setVisible] = useState<Set<string>>(() => {
    const stored = kept(`${name}.columns`);
    return new Set(stored ? stored.split(",") : columns.filter((column) => !column.extra).map((column) => column.id));
  });
  return [visible, (ids) => (keep(`${name}.columns`, [...ids].join(",")), setVisible(ids))];
}

function ColumnPicker<T>({ columns, visible, onPick }: { columns: Column<T>[]; visible: Set<string>; onPick: (ids: Set<string>) => void }): JSX.Element {
  const toggle = (id: string): void => {
    const next = new Set(visible);
    if (!next.delete(id)) next.add(id);
    onPick(next);
  };
  return (
    <details class="menu">
      <summary class="icon-button" aria-label="Columns" title="Columns">
        <Icon name="columns" />
      </summary>
      <div class="menu-box">
        {columns.slice(1).map((column) => (
          <label key={column.id} class="check">
            <input type="checkbox" checked={visible.has(column.id)} onInput={() => toggle(column.id)} />
            <span>{column.title}</span>
          </label>
        ))}
      </div>
    </details>
  );
}

/** A table of what is there already. */
export function PlainTable<T>({ rows, columns, rowKey, label }: { rows: T[]; columns: Column<T>[]; rowKey: (row: T) => string; label: string }): JSX.Element {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id} scope="col" class={column.numeric ? "numeric" : undefined}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => (
                <td key={column.id} class={column.numeric ? "numeric" : undefined}>
                  {column.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
