// Charts of numbers over time, drawn by uPlot. Colours come from the tokens, so charts follow the theme.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { kept, keep } from "../kept";
import { isDark, token } from "../theme";
import { Empty } from "./basics";

export interface Sample {
  sample: number;
  timestamp: number;
}

export interface Details {
  rate: number;
  samples?: Sample[];
}

export interface Line {
  label: string;
  /** A colour token, such as --chart-1. */
  color: string;
  points: Map<number, number>;
}

export const SPANS: Record<string, { title: string; age: number; incr: number }> = {
  minute: { title: "1 min", age: 60, incr: 5 },
  "10minutes": { title: "10 min", age: 600, incr: 5 },
  hour: { title: "1 h", age: 3600, incr: 60 },
  day: { title: "24 h", age: 86400, incr: 900 },
};

export function useSpan(): [string, (span: string) => void] {
  const [span, setSpan] = useState(() => kept("span") ?? "10minutes");
  return [span in SPANS ? span : "10minutes", (chosen) => (keep("span", chosen), setSpan(chosen))];
}

export function SpanPicker({ span, onPick }: { span: string; onPick: (span: string) => void }): JSX.Element {
  return (
    <div class="segmented" role="group" aria-label="Span of the charts">
      {Object.entries(SPANS).map(([name, { title }]) => (
        <button key={name} type="button" aria-pressed={name === span} onClick={() => onPick(name)}>
          {title}
        </button>
      ))}
    </div>
  );
}

export function spanQuery(span: string): Record<string, number> {
  const { age, incr } = SPANS[span] ?? SPANS["10minutes"]!;
  return { msg_rates_age: age, msg_rates_incr: incr, lengths_age: age, lengths_incr: incr };
}

export function levels(details: Details | undefined): Map<number, number> {
  return new Map((details?.samples ?? []).map((one) => [one.timestamp / 1000, one.sample]));
}

/** From samples of a counter to its rates. */
export function rates(details: Details | undefined): Map<number, number> {
  const samples = [...(details?.samples ?? [])].sort((one, other) => one.timestamp - other.timestamp);
  const found = new Map<number, number>();
  samples.forEach((one, index) => {
    const before = samples[index - 1];
    if (before && one.timestamp > before.timestamp) {
      const value = (1000 * (one.sample - before.sample)) / (one.timestamp - before.timestamp);
      found.set(one.timestamp / 1000, Math.max(0, value));
    }
  });
  return found;
}

export function Chart({ title, lines, unit }: { title: string; lines: Line[]; unit: (value: number) => string }): JSX.Element {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  const times = [...new Set(lines.flatMap((line) => [...line.points.keys()]))].sort((one, other) => one - other);
  const data = [times, ...lines.map((line) => times.map((time) => line.points.get(time) ?? null))] as uPlot.AlignedData;
  const labels = lines.map((line) => line.label).join();
  const isEmpty = times.length < 2;

  useEffect(() => {
    const place = holder.current;
    if (!place || isEmpty) return;
    const made = new uPlot(options(lines, place.clientWidth, unit), data, place);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: HEIGHT }));
    watcher.observe(place);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [dark, labels, isEmpty]);

  useEffect(() => plot.current?.setData(data));

  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <ul class="legend">
          {lines.map((line) => (
            <li key={line.label}>
              <span class={`swatch swatch${line.color}`} aria-hidden="true" />
              {line.label} <b>{unit(last(line))}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      {isEmpty ? <Empty title="Nothing to draw yet">The first samples come within seconds.</Empty> : <div ref={holder} class="plot" role="img" aria-label={`${title}: ${lines.map((line) => `${line.label} ${unit(last(line))}`).join(", ")}`} />}
    </figure>
  );
}

const HEIGHT = 168;

function last(line: Line): number {
  const newest = Math.max(...line.points.keys());
  return line.points.get(newest) ?? 0;
}

function options(lines: Line[], width: number, unit: (value: number) => string): uPlot.Options {
  const grid = { stroke: token("--line"), width: 1 };
  const axis = { stroke: token("--text-3"), font: "11px system-ui, sans-serif", grid, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    padding: [8, 18, 0, 0],
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.15 : 1] } },
    axes: [
      { ...axis, size: 26, grid: { show: false }, space: 80, values: (_plot, ticks) => ticks.map(clock) },
      { ...axis, size: 58, space: 36, values: (_plot, ticks) => ticks.map((tick) => unit(tick)) },
    ],
    series: [
      {},
      ...lines.map((line, index) => ({
        label: line.label,
        stroke: token(line.color),
        width: 2,
        ...(index === 0 ? { fill: `${token(line.color)}1f` } : {}),
        points: { show: false },
        spanGaps: true,
      })),
    ],
    plugins: [tooltip(lines, unit)],
  };
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).replace(/:00$/, "");
}

/** The values under the pointer, in a box beside it. */
function tooltip(lines: Line[], unit: (value: number) => string): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "tooltip";
  box.hidden = true;
  return {
    hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor;
        box.hidden = idx === null || idx === undefined || left < 0;
        if (box.hidden || idx === null || idx === undefined) return;
        const rows = lines.map((line, index) => `${line.label}: ${unit(plot.data[index + 1]?.[idx] ?? 0)}`);
        box.textContent = [clock(plot.data[0][idx] ?? 0), ...rows].join("\n");
        const beyond = left > plot.over.clientWidth / 2;
        box.style.left = beyond ? "auto" : `${left + 12}px`;
        box.style.right = beyond ? `${plot.over.clientWidth - left + 12}px` : "auto";
      },
    },
  };
}
