"""One case after the other on one bench: a data directory in a known state, a broker whose calls fail, a script, a
restart without faults, and what is wrong after it."""

import copy
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.crash.broker_process import Settings
from tests.crash.enumeration.calls import SHORTAGES, Fault, FaultyCalls, Kind
from tests.crash.enumeration.cases import Counts
from tests.crash.enumeration.evidence import Evidence
from tests.crash.enumeration.launcher import ForkedBroker, Launcher
from tests.crash.enumeration.script import Script
from tests.crash.enumeration.verdict import after_restart, in_its_end, in_its_log, reason_of

_SETTINGS: Final[Settings] = {"storage": {"segment_bytes": 64 * 1024}}


@dataclass(frozen=True)
class Template:
    """A data directory after a kill, and what clients know of it. None is one that does not exist yet: then a case is
    the first start of a broker, and nothing else."""

    data: Path | None = None
    evidence: Evidence = field(default_factory=Evidence)


@dataclass
class Outcome:
    fault: Fault | None
    findings: list[str]
    # Whether the call that was to fail was made at all, and on which file.
    was_hit: bool = False
    path: str = ""
    # How the broker with the fault ended: "refused to start", "stopped by itself", "stopped", "killed".
    ending: str = ""
    log: str = ""

    def __str__(self) -> str:
        where = f" on {self.path}" if self.path else ""
        return f"{self.fault}{where}, {self.ending}:\n" + "\n".join(f"    {line}" for line in self.findings[:12])


class Bench:
    def __init__(self, directory: Path, breakage: str | None = None) -> None:
        directory.mkdir(parents=True)
        self._data = directory / "broker" / "data"
        self.calls = FaultyCalls(directory / "shim", self._data)
        self._launcher = Launcher(directory, self.calls.environment, breakage)
        self._broker = ForkedBroker(self._launcher, directory / "broker", _SETTINGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._launcher.close()

    # ---- before the cases

    def make_template(self, directory: Path) -> Template:
        """Runs the first part of the script, and kills the broker: its start has something to recover."""
        evidence = Evidence()
        self._broker.start()
        self._script(evidence).prepare()
        # Until nothing is done behind everybody's back: each run is to count the same calls.
        time.sleep(0.5)
        self._broker.end(signal.SIGKILL)
        shutil.copytree(self._data, directory, ignore=shutil.ignore_patterns("*.sock"))
        return Template(directory, evidence)

    def count(self, template: Template) -> Counts:
        """A run without faults, which must leave nothing wrong."""
        evidence = self._lay_out(template)
        self.calls.reset()
        self._broker.start()
        served = self.calls.counts
        assert self._worked(template, evidence), self._broker.log_text()
        worked = self.calls.counts
        status = self._broker.end(signal.SIGTERM)
        counts = Counts(served, worked, self.calls.counts)
        wrong = [*in_its_log(self._broker, False), *after_restart(self._broker, evidence, True)]
        assert status == 0 and not wrong, f"without any fault: status {status}, {wrong}\n{self._broker.log_text()}"
        return counts

    # ---- one case

    def run(self, template: Template, fault: Fault, orderly: bool, sticky: bool = False) -> Outcome:
        """`orderly` ends a broker that goes on by SIGTERM, else by SIGKILL."""
        evidence = self._lay_out(template)
        outcome = Outcome(fault, [])
        self.calls.reset(fault, sticky)
        try:
            self._run_with_fault(template, evidence, outcome, orderly)
            outcome.was_hit, outcome.path = self.calls.hits > 0, self._file(self.calls.path)
            self.calls.mend()
            may_name_damage = fault.error not in SHORTAGES and fault.kind is not Kind.ACCEPT
            outcome.findings += in_its_log(self._broker, may_name_damage)
            outcome.findings += after_restart(self._broker, evidence, outcome.ending == "stopped")
        except (AssertionError, OSError) as error:
            outcome.findings.append(f"hung or broken: {type(error).__name__} {error}")
        finally:
            self.calls.mend()
            self._broker.end(signal.SIGKILL)
            outcome.log = self._broker.log_text()
        return outcome

    def _lay_out(self, template: Template) -> Evidence:
        shutil.rmtree(self._data, ignore_errors=True)
        if template.data is not None:
            shutil.copytree(template.data, self._data)
            # It would tell that this is a copy; the start makes it anew.
            (self._data / "manifest").unlink(missing_ok=True)
        self._broker.log.unlink(missing_ok=True)
        return copy.deepcopy(template.evidence)

    def _script(self, evidence: Evidence) -> Script:
        return Script(self._broker.port, self._broker.management_port, evidence, lambda: self._broker.is_alive)

    def _worked(self, template: Template, evidence: Evidence) -> bool:
        """Runs the script, if there is one to run; False if the broker has ended on the way."""
        return template.data is None or self._script(evidence).run()

    def _run_with_fault(self, template: Template, evidence: Evidence, outcome: Outcome, orderly: bool) -> None:
        self._broker.spawn()
        if not self._broker.serves():
            outcome.ending = "refused to start"
            outcome.findings += in_its_end(self._broker)
            return
        if not self._worked(template, evidence):
            outcome.ending = "stopped by itself"
            outcome.findings += in_its_end(self._broker)
            assert outcome.fault is not None
            if not outcome.fault.may_stop:
                outcome.findings.append(f"stopped: {outcome.fault} is no reason to end: {reason_of(self._broker)}")
            return
        struck = self.calls.hits > 0
        outcome.ending = "stopped" if orderly else "killed"
        status = self._broker.end(signal.SIGTERM if orderly else signal.SIGKILL)
        if orderly and status != 0:
            # What fails while it stops, or ends the store just before, may be told by the status; nothing else may.
            outcome.ending = "stopped with an error"
            assert outcome.fault is not None
            if (struck and not outcome.fault.may_stop) or status != 1:
                outcome.findings.append(f"stopped with status {status}: {reason_of(self._broker)}")

    def _file(self, path: str) -> str:
        return path.removeprefix(str(self._data)).lstrip("/") or ("" if not path else ".")
