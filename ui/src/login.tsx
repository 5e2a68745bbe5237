// The way in: a name and a password, or a token.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, said } from "./api";
import { Button, Failure, Note, TextField } from "./parts/basics";
import { Logo } from "./parts/logo";
import { logIn, loginReason } from "./session";

export function Login(): JSX.Element {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState("");
  const [byToken, setByToken] = useState(false);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      await logIn(byToken ? { token } : { username: user, password });
    } catch (failure) {
      setError(failure instanceof ApiError && failure.status === 401 ? "Login failed: the name or the password is wrong, or this user may not log in from here." : said(failure));
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Logo />
        <h1>Log in to Leveret</h1>
        {loginReason.value !== "" && <Note tone="warn">{loginReason.value}</Note>}
        {byToken ? (
          <TextField label="Token" type="password" value={token} onInput={setToken} required autofocus hint="A signed token (JWT), if the broker takes them." />
        ) : (
          <>
            <TextField label="User" value={user} onInput={setUser} required autofocus autocomplete="username" />
            <TextField label="Password" type="password" value={password} onInput={setPassword} autocomplete="current-password" />
          </>
        )}
        <Failure error={error} />
        <Button type="submit" kind="primary" disabled={busy}>
          Log in
        </Button>
        <button type="button" class="link" onClick={() => setByToken(!byToken)}>
          {byToken ? "Log in with a password" : "Log in with a token"}
        </button>
      </form>
    </main>
  );
}
