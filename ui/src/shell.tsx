// What surrounds every page: sidebar, top bar, banners.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Alarms } from "./alarms";
import { reachable } from "./api";
import { NAV } from "./nav";
import { Palette, paletteOpen } from "./palette";
import { IconButton } from "./parts/basics";
import { Icon } from "./parts/icons";
import { Logo } from "./parts/logo";
import { Toasts } from "./parts/toast";
import { href, place } from "./router";
import { logOut, may, session } from "./session";
import { isDark, theme } from "./theme";
import { vhost, vhosts } from "./vhost";

const menuOpen = signal(false);

export function Shell({ children }: { children: ComponentChildren }): JSX.Element {
  useEffect(() => {
    menuOpen.value = false;
  }, [place.value]);
  return (
    <div class={menuOpen.value ? "shell menu-open" : "shell"}>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <Sidebar />
      <div class="column">
        <TopBar />
        {!reachable.value && (
          <div class="banner banner-bad" role="alert">
            <Icon name="warning" /> The broker does not answer. What you see may be old; this page tries again by itself.
          </div>
        )}
        <Alarms />
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      {menuOpen.value && <div class="scrim" onClick={() => (menuOpen.value = false)} />}
      {paletteOpen.value && <Palette />}
      <Toasts />
    </div>
  );
}

function Sidebar(): JSX.Element {
  const shown = NAV.filter((item) => may(item.needs));
  const groups = [...new Set(shown.map((item) => item.group))];
  const here = place.value.path[0] ?? "overview";
  return (
    <nav class="sidebar" aria-label="Pages">
      <a class="brand" href={href(["overview"])}>
        <Logo />
        <span>Leveret</span>
      </a>
      {groups.map((group) => (
        <div key={group} class="nav-group">
          {group !== "" && <p class="nav-title">{group}</p>}
          {shown
            .filter((item) => item.group === group)
            .map((item) => (
              <a key={item.id} href={href([item.id])} aria-current={here === item.id ? "page" : undefined}>
                <Icon name={item.icon} />
                {item.title}
              </a>
            ))}
        </div>
      ))}
    </nav>
  );
}

function TopBar(): JSX.Element {
  return (
    <header class="topbar">
      <div class="only-narrow">
        <IconButton icon="menu" label="Pages" onClick={() => (menuOpen.value = !menuOpen.value)} />
      </div>
      <button type="button" class="search-button" onClick={() => (paletteOpen.value = true)}>
        <Icon name="search" />
        <span>Jump to …</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="toolbar-gap" />
      {vhosts.value.length > 1 && (
        <label class="vhost-picker">
          <span>Virtual host</span>
          <select value={vhost.value} onInput={(event) => (vhost.value = event.currentTarget.value)}>
            <option value="" selected={vhost.value === ""}>
              All
            </option>
            {vhosts.value.map((name) => (
              <option key={name} value={name} selected={name === vhost.value}>
                {name}
              </option>
            ))}
          </select>
        </label>
      )}
      <IconButton icon={isDark.value ? "sun" : "moon"} label={isDark.value ? "Light colours" : "Dark colours"} onClick={() => (theme.value = isDark.value ? "light" : "dark")} />
      <span class="who" title={session.value?.tags.join(", ") || "no tags"}>
        {session.value?.name}
      </span>
      <IconButton icon="logout" label="Log out" onClick={() => void logOut()} />
    </header>
  );
}

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && session.value !== null) {
    event.preventDefault();
    paletteOpen.value = !paletteOpen.value;
  }
});
