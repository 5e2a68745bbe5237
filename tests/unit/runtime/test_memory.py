"""Memory: the least of machine and cgroups, of either version and however nested; what the process holds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.runtime import memory
from leveret.runtime.memory import ResidentMemory, memory_limit_bytes

MIB = 1 << 20
MACHINE = 8192 * MIB
V1_NO_LIMIT = "9223372036854771712"
V1_MOUNT = "35 31 0:32 {shown} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
V1_CPU_MOUNT = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu"
V2_MOUNT = "41 31 0:38 {shown} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


class Machine:
    """A /proc and /sys of a machine with 8 GiB."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal:       {MACHINE // 1024} kB\nMemFree:         1024 kB\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def mount(self, *lines: str, shown: str = "/") -> None:
        self.write("proc/self/mountinfo", "".join(line.format(shown=shown) + "\n" for line in lines))

    def cgroup(self, *lines: str) -> None:
        self.write("proc/self/cgroup", "".join(line + "\n" for line in lines))

    def limit_v1(self, path: str, text: str | int) -> None:
        self.write(f"sys/fs/cgroup/memory{path}/memory.limit_in_bytes", f"{text}\n")

    def limit_v2(self, path: str, text: str | int, name: str = "memory.max") -> None:
        self.write(f"sys/fs/cgroup{path}/{name}", f"{text}\n")

    def limit_bytes(self) -> int:
        return memory_limit_bytes(str(self.root))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_cgroups_the_machine_is_the_limit(machine: Machine) -> None:
    assert machine.limit_bytes() == MACHINE


def test_version_1_limits(machine: Machine) -> None:
    machine.mount(V1_CPU_MOUNT, V1_MOUNT)
    machine.cgroup("4:memory:/broker", "1:cpu:/other", "0::/")
    machine.limit_v1("", V1_NO_LIMIT)
    machine.limit_v1("/broker", 256 * MIB)
    machine.limit_v1("/other", MIB)
    assert machine.limit_bytes() == 256 * MIB


def test_version_1_without_a_limit_has_an_astronomic_one(machine: Machine) -> None:
    machine.mount(V1_MOUNT)
    machine.cgroup("4:memory:/broker")
    machine.limit_v1("", V1_NO_LIMIT)
    machine.limit_v1("/broker", V1_NO_LIMIT)
    assert machine.limit_bytes() == MACHINE


def test_version_1_controllers_may_share_a_hierarchy(machine: Machine) -> None:
    machine.mount("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory")
    machine.cgroup("4:cpu,memory:/broker")
    machine.limit_v1("/broker", 64 * MIB)
    assert machine.limit_bytes() == 64 * MIB


def test_version_2_limits(machine: Machine) -> None:
    machine.mount(V2_MOUNT)
    machine.cgroup("0::/system.slice/leveret.service")
    machine.limit_v2("/system.slice", "max")
    machine.limit_v2("/system.slice/leveret.service", 512 * MIB)
    assert machine.limit_bytes() == 512 * MIB


def test_version_2_without_a_limit_says_max(machine: Machine) -> None:
    machine.mount(V2_MOUNT)
    machine.cgroup("0::/broker")
    machine.limit_v2("/broker", "max")
    machine.limit_v2("/broker", "max", "memory.high")
    assert machine.limit_bytes() == MACHINE


def test_where_allocations_are_slowed_down_is_a_limit_too(machine: Machine) -> None:
    machine.mount(V2_MOUNT)
    machine.cgroup("0::/broker")
    machine.limit_v2("/broker", 512 * MIB)
    machine.limit_v2("/broker", 400 * MIB, "memory.high")
    assert machine.limit_bytes() == 400 * MIB


@pytest.mark.parametrize("least", ["", "/a", "/a/b", "/a/b/c"])
@pytest.mark.parametrize("version", [1, 2])
def test_the_least_of_nested_cgroups_holds(machine: Machine, least: str, version: int) -> None:
    machine.mount(V1_MOUNT if version == 1 else V2_MOUNT)
    machine.cgroup("7:memory:/a/b/c" if version == 1 else "0::/a/b/c")
    limit = machine.limit_v1 if version == 1 else machine.limit_v2
    for path in ("", "/a", "/a/b", "/a/b/c"):
        limit(path, 100 * MIB if path == least else 200 * MIB)
    # Neither a neighbour nor a child limits this process.
    limit("/a/x", MIB)
    limit("/a/b/c/d", MIB)
    assert machine.limit_bytes() == 100 * MIB


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_sees_its_own_cgroup_as_the_top(machine: Machine, version: int) -> None:
    machine.mount(V1_MOUNT if version == 1 else V2_MOUNT, shown="/docker/abc")
    machine.cgroup("7:memory:/docker/abc/inner" if version == 1 else "0::/docker/abc/inner")
    limit = machine.limit_v1 if version == 1 else machine.limit_v2
    limit("", 300 * MIB)
    limit("/inner", 700 * MIB)
    assert machine.limit_bytes() == 300 * MIB


@pytest.mark.parametrize("path", ["/docker/abcd", "/elsewhere", "/"])
def test_a_cgroup_that_cannot_be_seen_is_judged_by_the_visible_top(machine: Machine, path: str) -> None:
    machine.mount(V1_MOUNT, shown="/docker/abc")
    machine.cgroup(f"7:memory:{path}")
    machine.limit_v1("", 300 * MIB)
    assert machine.limit_bytes() == 300 * MIB


def test_a_process_outside_of_its_namespace_is_judged_by_the_visible_top(machine: Machine) -> None:
    machine.mount(V2_MOUNT)
    machine.cgroup("0::/../../other")
    machine.limit_v2("", 300 * MIB)
    assert machine.limit_bytes() == 300 * MIB


def test_a_cgroup_that_was_removed_leaves_those_around_it(machine: Machine) -> None:
    machine.mount(V2_MOUNT)
    machine.cgroup("0::/slice/broker (deleted)")
    machine.limit_v2("/slice", 300 * MIB)
    assert machine.limit_bytes() == 300 * MIB


def test_a_mount_point_may_have_spaces_and_paths_colons(machine: Machine) -> None:
    machine.mount(r"41 31 0:38 / /my\040cgroups rw - cgroup2 cgroup2 rw")
    machine.cgroup("0::/a:b")
    machine.write("my cgroups/a:b/memory.max", str(MIB))
    assert machine.limit_bytes() == MIB


@pytest.mark.parametrize("text", ["0", "", "-1", "none"])
def test_what_cannot_be_a_limit_is_none(machine: Machine, text: str) -> None:
    machine.mount(V1_MOUNT)
    machine.cgroup("7:memory:/broker")
    machine.limit_v1("/broker", text)
    assert machine.limit_bytes() == MACHINE


def test_without_proc_the_system_is_asked(tmp_path: Path) -> None:
    assert memory_limit_bytes(str(tmp_path)) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_this_machine_has_memory() -> None:
    assert MIB < memory_limit_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_resident_memory_is_the_second_figure_in_pages(tmp_path: Path) -> None:
    statm = tmp_path / "proc/self/statm"
    statm.parent.mkdir(parents=True)
    statm.write_text("5000 1234 500 600 0 700 0\n")
    resident = ResidentMemory(str(tmp_path))
    assert resident.resident_bytes() == 1234 * os.sysconf("SC_PAGE_SIZE")
    # The file stays open and is read anew each time.
    statm.write_text("5000 77 500 600 0 700 0\n")
    assert resident.resident_bytes() == 77 * os.sysconf("SC_PAGE_SIZE")
    resident.close()
    resident.close()


def test_resident_memory_follows_what_is_allocated() -> None:
    resident = ResidentMemory()
    before = resident.resident_bytes()
    block = bytearray(os.urandom(1)) * (64 * MIB)
    during = resident.resident_bytes()
    del block
    assert during - before > 48 * MIB
    assert resident.resident_bytes() < during - 48 * MIB
    resident.close()


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("freebsd", 1024)])
def test_without_proc_resident_memory_is_the_peak(
    platform: str, unit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident = ResidentMemory(str(tmp_path))
    monkeypatch.setattr(memory.sys, "platform", platform)
    # The peak may grow between the two questions.
    least = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    answer = resident.resident_bytes()
    assert least <= answer <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    resident.close()


# In a process of its own: what earlier tests have left free in the heap would be given back, or used, as well.
GIVING_BACK = """
from leveret.runtime.memory import ResidentMemory
resident = ResidentMemory()
pieces = [bytes(8000) for _ in range(10_000)]
# Every hundredth stays, so that the C library cannot shrink its heap by itself.
pieces = pieces[::100]
before, free = resident.resident_bytes(), resident.free_bytes()
print(resident.give_back(), free, before - resident.resident_bytes(), len(pieces))
"""


def test_freed_memory_between_live_pieces_goes_back_when_asked() -> None:
    done = subprocess.run([sys.executable, "-c", GIVING_BACK], capture_output=True, text=True, check=True, timeout=60)
    can_give_back, free, given_back, pieces = done.stdout.split()
    assert int(free) > 40 * MIB or sys.platform != "linux"
    if can_give_back != "True":
        pytest.skip("the C library is not glibc")
    assert pieces == "100"
    assert int(given_back) > 40 * MIB


def test_a_c_library_that_cannot_give_back_is_asked_for_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sought = []

    def find() -> tuple[None, None]:
        sought.append(1)
        return None, None

    monkeypatch.setattr(memory, "_find_malloc", find)
    resident = ResidentMemory()
    assert [resident.give_back(), resident.give_back()] == [False, False]
    assert resident.free_bytes() == 0
    assert sought == [1]
    resident.close()
