// Icons: 16 x 16 strokes in the colour of the text beside them.
import type { JSX } from "preact";

const PATHS = {
  overview: "M2 13h12M4 13V8M8 13V3M12 13V6",
  queues: "M2 4h12M2 8h12M2 12h8",
  dead: "M4 3h8l1 3v6.500a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V6zM3 6h10M6.500 9l3 3M9.500 9l-3 3",
  exchanges: "M3 5h9l-2.500-2.500M13 11H4l2.500 2.500",
  topology: "M4 5.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM12 5.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM8 13.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM4.800 5.300 7.200 10.700M11.200 5.300 8.800 10.700",
  connections: "M6 3v3M10 3v3M4.500 6h7v2.500a3.500 3.500 0 0 1-7 0zM8 12v2",
  channels: "M2 5h5l2 6h5M2 11h5M9 5h5",
  consumers: "M2.500 3h11v7h-3.500L8 13l-2-3H2.500z",
  tail: "M1.500 8h3l2-4.500 3 9 2-4.500h3",
  users: "M6 7.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM1.500 13.500c0-2.500 2-4 4.500-4s4.500 1.500 4.500 4M11 7.500a2 2 0 1 0-.8-3.800M11.500 9.500c2 .2 3 1.500 3 3.500",
  vhosts: "M3 2.500h10v4H3zM3 9.500h10v4H3zM5.500 4.500h.01M5.500 11.500h.01",
  policies: "M4 2h6l2.500 2.500V14H4zM6 7h4.500M6 9.500h4.500M6 12h2.500",
  definitions: "M8 2v8M4.800 7 8 10.200 11.200 7M2.500 13.500h11",
  audit: "M8 4.500V8l2.500 1.500M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.800 10.800 14 14",
  sun: "M8 10.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1",
  moon: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500z",
  menu: "M2 4h12M2 8h12M2 12h12",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.500 5.500v-3h8v8h-3M2.500 5.500h8v8h-8z",
  check: "M3 8.500 6.500 12 13 4.500",
  columns: "M2.500 3h11v10h-11zM6 3v10M10 3v10",
  pause: "M5.500 3.500v9M10.500 3.500v9",
  play: "M5 3l8 5-8 5z",
  plus: "M8 3v10M3 8h10",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  warning: "M8 2.500 14.500 13.500H1.500zM8 6.500v3M8 11.500h.01",
  logout: "M6 2.500H3v11h3M10 5l3 3-3 3M13 8H6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
