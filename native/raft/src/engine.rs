//! What Python sees: the engine of a node. Leaves the work to group.rs and turns values into objects.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::create_exception;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use raft::eraftpb::{ConfChangeType, ConfState, Entry, EntryType, HardState, Message};
use raft::{ProgressState, StateRole};

use crate::frame::{self, node_of, NUMBER_MAX};
use crate::group::{Dice, Group, Harvest};
use crate::log::{Log, DESCRIPTOR_BYTES};

create_exception!(
    leveret_raft, EngineFailed, PyRuntimeError,
    "A group has come into a state that cannot be: its replica has lost what was on disk, or there is a mistake in the \
     engine. `group` is its id. The engine takes no further call; the node must end."
);

const TICKS_MAX: usize = 100_000;

thread_local! {
    /// Where in the source the last panic was.
    static PANIC_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics become exceptions that say everything; nothing is to be printed. Concerns the panics of this library alone.
pub fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("{}:{}", at.file().rsplit('/').next().unwrap_or(""), at.line()));
        PANIC_AT.with(|kept| *kept.borrow_mut() = place.unwrap_or_default());
    }));
}

fn wrong(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

type Members = (Vec<u64>, Vec<u64>);

fn members(conf: &ConfState) -> Members {
    (conf.voters.clone(), conf.learners.clone())
}

/// What all groups want done; see README.md for the order.
#[pyclass(frozen, get_all, module = "leveret_raft")]
pub struct Ready {
    appends: Py<PyList>,
    states: Py<PyList>,
    installs: Py<PyList>,
    numbers: Py<PyList>,
    frames: Py<PyDict>,
    carriers: Py<PyList>,
    committed: Py<PyList>,
    configurations: Py<PyList>,
    roles: Py<PyList>,
    more: bool,
}

/// One group as this node sees it.
#[pyclass(frozen, get_all, module = "leveret_raft")]
pub struct Status {
    replica: u64,
    term: u64,
    vote: u64,
    leader: u64,
    leads: bool,
    role: &'static str,
    last: u64,
    committed: u64,
    applied: u64,
    floor: u64,
    floor_term: u64,
    floor_voters: Vec<u64>,
    floor_learners: Vec<u64>,
    voters: Vec<u64>,
    learners: Vec<u64>,
    /// (replica, matched, state, heard of lately); empty where this replica does not lead.
    progress: Vec<(u64, u64, &'static str, bool)>,
}

#[pyclass(module = "leveret_raft")]
pub struct Engine {
    groups: BTreeMap<u64, Group>,
    dirty: Vec<u64>,
    dice: Dice,
    inflight: usize,
    append_bytes: u64,
    failed: Option<(u64, String)>,
    logger: slog::Logger,
}

fn appended<'p>(py: Python<'p>, list: Vec<(u64, Entry)>) -> PyResult<Bound<'p, PyList>> {
    PyList::new(py, list.iter().map(|(group, e)| (*group, e.index, e.term, e.entry_type, PyBytes::new(py, &e.data))))
}

fn framed(messages: &[(u64, Message)]) -> BTreeMap<u64, Vec<u8>> {
    let mut frames: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (group, message) in messages {
        frame::put(frames.entry(node_of(message.to)).or_default(), *group, message);
    }
    frames
}

fn frames_dict<'p>(py: Python<'p>, messages: &[(u64, Message)]) -> PyResult<Bound<'p, PyDict>> {
    let frames = PyDict::new(py);
    for (node, octets) in framed(messages) {
        frames.set_item(node, PyBytes::new(py, &octets))?;
    }
    Ok(frames)
}

/// (node, group, index of the offered state or 0, [(index, term)] of the payloads that travel along, frame)
fn carrier<'p>(py: Python<'p>, group: u64, message: &Message) -> PyResult<Bound<'p, PyAny>> {
    let mut octets = Vec::new();
    frame::put(&mut octets, group, message);
    let offered = message.snapshot.as_ref().and_then(|snapshot| snapshot.metadata.as_ref()).map_or(0, |m| m.index);
    let payloads: Vec<(u64, u64)> = message.entries.iter()
        .filter(|entry| entry.entry_type == EntryType::EntryNormal as i32 && !entry.data.is_empty())
        .map(|entry| (entry.index, entry.term))
        .collect();
    Ok((node_of(message.to), group, offered, payloads, PyBytes::new(py, &octets)).into_pyobject(py)?.into_any())
}

impl Engine {
    fn check_alive(&self) -> PyResult<()> {
        match &self.failed {
            Some((group, text)) => Err(failure(*group, text)),
            None => Ok(()),
        }
    }

    fn touch(&mut self, group: u64) {
        if let Some(found) = self.groups.get_mut(&group) {
            if !found.dirty {
                found.dirty = true;
                self.dirty.push(group);
            }
        }
    }

    /// Works on one group. A panic in it fails the engine.
    fn on<T>(&mut self, group: u64, work: impl FnOnce(&mut Group, &mut Dice) -> T) -> PyResult<T> {
        self.check_alive()?;
        let (groups, dice) = (&mut self.groups, &mut self.dice);
        let found = groups.get_mut(&group).ok_or_else(|| PyKeyError::new_err(format!("no group {group} here")))?;
        catch_unwind(AssertUnwindSafe(|| work(found, dice))).map_err(|panic| self.fail(group, &*panic))
    }

    fn fail(&mut self, group: u64, panic: &(dyn Any + Send)) -> PyErr {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let place = PANIC_AT.with(|kept| std::mem::take(&mut *kept.borrow_mut()));
        let text = format!("group {group}: {} ({place})", said.unwrap_or("panic").trim());
        self.failed = Some((group, text.clone()));
        failure(group, &text)
    }
}

fn failure(group: u64, text: &str) -> PyErr {
    let error = EngineFailed::new_err(text.to_owned());
    Python::attach(|py| {
        // Without the attribute the text still names the group.
        let _ = error.value(py).setattr("group", group);
    });
    error
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (seed, inflight = 64, append_bytes = 262_144))]
    fn new(seed: u64, inflight: usize, append_bytes: u64) -> PyResult<Self> {
        if inflight == 0 || inflight > 65_536 {
            return Err(wrong(format!("{inflight} appends in flight; 1 to 65,536 are possible")));
        }
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let (groups, dirty, dice) = (BTreeMap::new(), Vec::new(), Dice(seed));
        Ok(Engine { groups, dirty, dice, inflight, append_bytes, failed: None, logger })
    }

    #[allow(clippy::too_many_arguments)]
    fn add_group(
        &mut self, group: u64, replica: u64, voters: Vec<u64>, learners: Vec<u64>, hard: (u64, u64, u64),
        floor: (u64, u64), entries: Vec<(u64, u64, i32, Vec<u8>)>, applied: u64, timeout: usize, heartbeat: usize,
    ) -> PyResult<()> {
        self.check_alive()?;
        let entries: Vec<Entry> = entries.into_iter()
            .map(|(index, term, entry_type, data)| Entry { index, term, entry_type, data, ..Default::default() })
            .collect();
        let last = floor.0 + entries.len() as u64;
        let (term, vote, commit) = hard;
        let named = |text: String| wrong(format!("group {group}: {text}"));
        if self.groups.contains_key(&group) || replica == 0 || floor.0 > NUMBER_MAX || term > NUMBER_MAX {
            return Err(named(format!("exists, or replica {replica}, floor {floor:?} or term {term} is out of range")));
        }
        if floor.1 > term || (floor.0 == 0) != (floor.1 == 0) {
            return Err(named(format!("floor {floor:?} with term {term}")));
        }
        frame::check_entries(&entries, floor.0, floor.1, term).map_err(named)?;
        frame::check_members(&voters, &learners).map_err(named)?;
        if commit < floor.0 || commit > last || applied < floor.0 || applied > commit {
            return Err(named(format!("floor {}, applied {applied}, committed {commit}, last {last}", floor.0)));
        }
        if heartbeat == 0 || timeout <= heartbeat || timeout > TICKS_MAX {
            return Err(named(format!("election after {timeout} ticks, heartbeat after {heartbeat}")));
        }
        let conf = ConfState { voters, learners, ..Default::default() };
        let mut log = Log::new(floor, conf, HardState { term, vote, commit }, entries, self.append_bytes);
        log.apply_to(applied).map_err(named)?;
        let made = catch_unwind(AssertUnwindSafe(|| Group::new(replica, log, timeout, heartbeat, self.inflight, &self.logger)))
            .map_err(|panic| self.fail(group, &*panic))?;
        self.groups.insert(group, made.map_err(named)?);
        self.touch(group);
        Ok(())
    }

    fn remove_group(&mut self, group: u64) -> PyResult<bool> {
        self.check_alive()?;
        self.dirty.retain(|id| *id != group);
        Ok(self.groups.remove(&group).is_some())
    }

    fn groups(&self) -> Vec<u64> {
        self.groups.keys().copied().collect()
    }

    fn tick(&mut self) -> PyResult<()> {
        for group in self.groups() {
            if self.on(group, |found, dice| found.tick(dice))? {
                self.touch(group);
            }
        }
        Ok(())
    }

    fn campaign(&mut self, group: u64) -> PyResult<()> {
        self.on(group, |found, _| {
            let _ = found.node.campaign();
        })?;
        self.touch(group);
        Ok(())
    }

    fn propose(&mut self, group: u64, descriptor: &[u8]) -> PyResult<(u64, u64)> {
        if descriptor.len() != DESCRIPTOR_BYTES {
            return Err(wrong(format!("descriptor of {} octets, not {DESCRIPTOR_BYTES}", descriptor.len())));
        }
        let place = self.on(group, |found, _| found.propose(descriptor))?;
        self.touch(group);
        Ok(place)
    }

    fn propose_conf_change(&mut self, group: u64, kind: i32, replica: u64) -> PyResult<(u64, u64)> {
        let kind = ConfChangeType::from_i32(kind).filter(|_| replica > 0)
            .ok_or_else(|| wrong(format!("configuration change of kind {kind} for replica {replica}")))?;
        let place = self.on(group, |found, _| found.propose_conf_change(kind, replica))?;
        self.touch(group);
        place.map_err(|text| wrong(format!("group {group}: {text}")))
    }

    fn transfer_leader(&mut self, group: u64, replica: u64) -> PyResult<bool> {
        let begun = self.on(group, |found, _| found.transfer_leader(replica))?;
        self.touch(group);
        Ok(begun)
    }

    /// What an append or an offer of state carries: (group, index of the state or 0, entries).
    #[staticmethod]
    #[allow(clippy::type_complexity)]
    fn open<'p>(
        py: Python<'p>, sender: u64, octets: &[u8],
    ) -> PyResult<(u64, u64, Vec<(u64, u64, i32, Bound<'p, PyBytes>)>)> {
        let mut found = frame::parse(octets, sender).map_err(wrong)?;
        let (Some((group, message)), true) = (found.pop(), found.is_empty()) else {
            return Err(wrong("a frame with payloads has one message"));
        };
        if !frame::is_heavy(&message) {
            return Err(wrong(format!("group {group}: nothing travels with this message")));
        }
        let offered = message.snapshot.as_ref().and_then(|snapshot| snapshot.metadata.as_ref()).map_or(0, |m| m.index);
        let entries = message.entries.iter().map(|e| (e.index, e.term, e.entry_type, PyBytes::new(py, &e.data)));
        Ok((group, offered, entries.collect()))
    }

    /// Steps every message of a frame, or none if one of them is malformed. `opened`: the caller has what travels along.
    #[pyo3(signature = (sender, octets, opened = false))]
    fn step(&mut self, sender: u64, octets: &[u8], opened: bool) -> PyResult<usize> {
        self.check_alive()?;
        let messages = frame::parse(octets, sender).map_err(wrong)?;
        if !opened && messages.iter().any(|(_, message)| frame::is_heavy(message)) {
            return Err(wrong("entries or an offer of state without what travels along"));
        }
        let count = messages.len();
        for (group, message) in messages {
            if self.groups.contains_key(&group) {
                let stepped = self.on(group, |found, _| found.step(message))?;
                self.touch(group);
                stepped.map_err(|text| wrong(format!("group {group}: {text}")))?;
            }
        }
        Ok(count)
    }

    fn ready(&mut self, py: Python<'_>) -> PyResult<Ready> {
        self.check_alive()?;
        let mut harvest = Harvest::default();
        for group in std::mem::take(&mut self.dirty) {
            let more = self.on(group, |found, _| {
                found.dirty = false;
                if found.node.has_ready() {
                    found.take_ready(group, &mut harvest);
                }
                found.node.has_ready()
            })?;
            if more {
                self.touch(group);
            }
        }
        let (heavy, light): (Vec<_>, Vec<_>) = harvest.messages.into_iter().partition(|(_, m)| frame::is_heavy(m));
        let carriers = heavy.iter().map(|(group, message)| carrier(py, *group, message)).collect::<PyResult<Vec<_>>>()?;
        let configurations = harvest.configurations.iter().map(|(group, index, conf)| (*group, *index, members(conf)));
        let installs = harvest.installs.iter().map(|(group, index, term, conf)| (*group, *index, *term, members(conf)));
        Ok(Ready {
            appends: appended(py, harvest.appends)?.unbind(),
            states: PyList::new(py, harvest.states)?.unbind(),
            installs: PyList::new(py, installs.collect::<Vec<_>>())?.unbind(),
            numbers: PyList::new(py, harvest.numbers)?.unbind(),
            frames: frames_dict(py, &light)?.unbind(),
            carriers: PyList::new(py, carriers)?.unbind(),
            committed: appended(py, harvest.committed)?.unbind(),
            configurations: PyList::new(py, configurations.collect::<Vec<_>>())?.unbind(),
            roles: PyList::new(py, harvest.roles)?.unbind(),
            more: !self.dirty.is_empty(),
        })
    }

    /// Everything of these readys, and of earlier ones, is on disk: the frames that may be sent now.
    fn persisted<'p>(&mut self, py: Python<'p>, numbers: Vec<(u64, u64)>) -> PyResult<Bound<'p, PyDict>> {
        self.check_alive()?;
        let mut messages = Vec::new();
        for (group, number) in numbers {
            // A group may be removed while its disk is busy.
            if self.groups.contains_key(&group) {
                self.on(group, |found, _| found.persisted(group, number, &mut messages))?
                    .map_err(|text| wrong(format!("group {group}: {text}")))?;
                self.touch(group);
            }
        }
        frames_dict(py, &messages)
    }

    /// What was sent to a node may be lost, for all groups or one: its connection has ended, or something was not sent.
    #[pyo3(signature = (node, group = None))]
    fn unreachable(&mut self, node: u64, group: Option<u64>) -> PyResult<()> {
        for group in group.map_or_else(|| self.groups(), |one| vec![one]) {
            self.on(group, |found, _| found.unreachable(node))?;
            self.touch(group);
        }
        Ok(())
    }

    /// Forgets entries up to `index`, none that is not applied; the new floor with its term and members.
    fn compact(&mut self, group: u64, index: u64) -> PyResult<(u64, u64, Members)> {
        self.on(group, |found, _| {
            let log = found.node.mut_store();
            log.compact(index);
            (log.floor, log.floor_term, members(&log.floor_conf))
        })
    }

    fn status(&mut self, group: u64) -> PyResult<Status> {
        self.on(group, |found, _| {
            let (raft, log) = (&found.node.raft, found.node.store());
            let mut progress = Vec::new();
            if found.leads() {
                for (id, p) in raft.prs().iter() {
                    let state = match p.state {
                        ProgressState::Probe => "probe",
                        ProgressState::Replicate => "replicate",
                        ProgressState::Snapshot => "snapshot",
                    };
                    progress.push((*id, p.matched, state, p.recent_active || *id == raft.id));
                }
                progress.sort_unstable();
            }
            let role = match raft.state {
                StateRole::Leader => "leader",
                StateRole::Follower if raft.promotable() => "follower",
                StateRole::Follower => "learner",
                StateRole::Candidate => "candidate",
                StateRole::PreCandidate => "pre_candidate",
            };
            let ((voters, learners), (floor_voters, floor_learners)) = (members(&log.conf), members(&log.floor_conf));
            Status {
                replica: raft.id, term: raft.term, vote: raft.vote, leader: raft.leader_id, leads: found.leads(), role,
                last: raft.raft_log.last_index(), committed: raft.raft_log.committed, applied: log.applied,
                floor: log.floor, floor_term: log.floor_term, floor_voters, floor_learners, voters, learners, progress,
            }
        })
    }
}
