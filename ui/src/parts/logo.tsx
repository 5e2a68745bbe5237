// The hare.
import type { JSX } from "preact";

export function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 32 32" role="img" aria-label="Leveret">
      <rect width="32" height="32" rx="8" class="logo-ground" />
      <path
        class="logo-hare"
        d="M11 4c2.600 0 4 4.300 4.300 8.200h1.400C17 8.300 18.400 4 21 4c2.200 0 2.500 4.800.9 9.600 2 1.500 3.100 3.700 3.100 6.100C25 24.300 21 28 16 28s-9-3.700-9-8.300c0-2.400 1.100-4.600 3.100-6.100C8.500 8.800 8.800 4 11 4Z"
      />
      <circle cx="12.600" cy="19" r="1.400" class="logo-ground" />
      <circle cx="19.400" cy="19" r="1.400" class="logo-ground" />
    </svg>
  );
}
