// Numbers, sizes and moments as people read them.
const whole = new Intl.NumberFormat("en-US");

export function count(value: number | undefined | null): string {
  return value === undefined || value === null ? "–" : whole.format(value);
}

export function short(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return Number.isInteger(value) ? String(value) : value.toFixed(size < 10 ? 1 : 0);
  const [divisor, unit] = size < 1e6 ? [1e3, "k"] : size < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const scaled = value / divisor;
  return `${scaled.toFixed(Math.abs(scaled) < 100 ? 1 : 0).replace(/\.0$/, "")}${unit}`;
}

export function rate(value: number | undefined | null): string {
  if (value === undefined || value === null) return "–";
  return `${value === 0 ? "0" : value < 10 ? value.toFixed(1) : whole.format(Math.round(value))}/s`;
}

export function bytes(value: number | undefined | null): string {
  if (value === undefined || value === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? scaled : scaled.toFixed(scaled < 10 ? 1 : 0)} ${units[unit]}`;
}

export function age(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function since(moment: number | undefined | null): string {
  return moment === undefined || moment === null ? "–" : age(Date.now() - moment);
}

export function moment(ms: number | undefined | null): string {
  if (ms === undefined || ms === null) return "–";
  const made = new Date(ms);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${made.getFullYear()}-${two(made.getMonth() + 1)}-${two(made.getDate())} ${two(made.getHours())}:${two(made.getMinutes())}:${two(made.getSeconds())}`;
}

export function exchangeName(name: string): string {
  return name === "" ? "(default)" : name;
}

export function plural(many: number, one: string, more = `${one}s`): string {
  return `${whole.format(many)} ${many === 1 ? one : more}`;
}
