// The beginning: who is there, and which page is meant.
import { type JSX, render } from "preact";
import { useEffect } from "preact/hooks";
import { Login } from "./login";
import { Empty } from "./parts/basics";
import { Audit } from "./pages/audit";
import { Channels, Consumers } from "./pages/channels";
import { Connection, Connections } from "./pages/connections";
import { DeadLetters } from "./pages/dead_letters";
import { Definitions } from "./pages/definitions";
import { Exchange } from "./pages/exchange";
import { Exchanges } from "./pages/exchanges";
import { Overview } from "./pages/overview";
import { Policies } from "./pages/policies";
import { Queue } from "./pages/queue";
import { Queues } from "./pages/queues";
import { Tail } from "./pages/tail";
import { Topology } from "./pages/topology";
import { UserPage, Users } from "./pages/users";
import { Vhosts } from "./pages/vhosts";
import { NAV } from "./nav";
import { href, place } from "./router";
import { may, resume, session, starting } from "./session";
import { Shell } from "./shell";
import "./styles/tokens.css";
import "./styles/elements.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/pages.css";
import "./theme";

function Page(): JSX.Element {
  const [page = "overview", ...names] = place.value.path;
  const [vhost, name, tab] = names;
  const item = NAV.find((one) => one.id === page);
  if (item && !may(item.needs)) return <Empty title="Your tags do not allow this page">{`It takes the right to ${item.needs}.`}</Empty>;
  switch (page) {
    case "overview":
      return <Overview />;
    case "queues":
      return vhost !== undefined && name !== undefined ? <Queue key={`${vhost} ${name}`} vhost={vhost} name={name} tab={tab ?? "overview"} /> : <Queues />;
    case "dead-letters":
      return <DeadLetters />;
    case "tail":
      return <Tail />;
    case "exchanges":
      return vhost !== undefined && name !== undefined ? <Exchange key={`${vhost} ${name}`} vhost={vhost} name={name} /> : <Exchanges />;
    case "topology":
      return <Topology />;
    case "connections":
      return vhost !== undefined ? <Connection key={vhost} name={vhost} /> : <Connections />;
    case "channels":
      return <Channels />;
    case "consumers":
      return <Consumers />;
    case "users":
      return vhost !== undefined ? <UserPage key={vhost} name={vhost} /> : <Users />;
    case "vhosts":
      return <Vhosts />;
    case "policies":
      return <Policies />;
    case "definitions":
      return <Definitions />;
    case "audit":
      return <Audit />;
    default:
      return (
        <Empty title="There is no such page">
          <a href={href(["overview"])}>To the overview</a>
        </Empty>
      );
  }
}

function App(): JSX.Element | null {
  useEffect(() => {
    const [page = "overview", first, name] = place.value.path;
    const words = name ?? first ?? page.replace(/-/g, " ").replace(/^./, (letter) => letter.toUpperCase());
    document.title = session.value === null ? "Log in – Leveret" : `${words} – Leveret`;
  });
  if (starting.value) return null;
  if (session.value === null) return <Login />;
  return (
    <Shell>
      <Page />
    </Shell>
  );
}

void resume();
const root = document.getElementById("app");
if (root) render(<App />, root);
