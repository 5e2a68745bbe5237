//! What the crate raft may read of a group: its entries, the floor below them, and who belongs to the group.
//!
//! Entries stay in memory because they are small: a descriptor of 16 octets stands for a payload that the engine never sees.

use std::collections::VecDeque;

use prost::Message as _;
use raft::eraftpb::{ConfChange, ConfChangeType, ConfState, Entry, EntryType, HardState, Snapshot};
use raft::storage::GetEntriesContext;
use raft::{RaftState, Result, Storage, StorageError};

pub const DESCRIPTOR_BYTES: usize = 16;

/// Octets of the payload that an entry stands for: the first field of its descriptor.
pub fn payload_bytes(entry: &Entry) -> u64 {
    match entry.data.get(..4) {
        Some(length) if entry.data.len() == DESCRIPTOR_BYTES && entry.entry_type == EntryType::EntryNormal as i32 => {
            u64::from(u32::from_le_bytes(length.try_into().expect("four octets")))
        }
        _ => 0,
    }
}

pub fn is_conf_change(entry: &Entry) -> bool {
    entry.entry_type == EntryType::EntryConfChange as i32
}

/// The change that an entry holds. Only single changes are ever proposed, in the first version of the format.
pub fn conf_change_of(entry: &Entry) -> std::result::Result<ConfChange, String> {
    let change = ConfChange::decode(&entry.data[..]).map_err(|error| format!("configuration change: {error}"))?;
    if ConfChangeType::try_from_number(change.change_type).is_none() || change.node_id == 0 {
        return Err(format!("configuration change of kind {} for replica {}", change.change_type, change.node_id));
    }
    Ok(change)
}

/// prost 0.11 has `from_i32`, later versions `TryFrom`; this is the one place that would change.
trait FromNumber: Sized {
    fn try_from_number(number: i32) -> Option<Self>;
}

impl FromNumber for ConfChangeType {
    fn try_from_number(number: i32) -> Option<Self> {
        ConfChangeType::from_i32(number)
    }
}

/// The configuration after one more change, as the crate makes it of single changes.
pub fn changed(conf: &ConfState, change: &ConfChange) -> ConfState {
    let replica = change.node_id;
    let mut voters: Vec<u64> = conf.voters.iter().copied().filter(|id| *id != replica).collect();
    let mut learners: Vec<u64> = conf.learners.iter().copied().filter(|id| *id != replica).collect();
    match ConfChangeType::from_i32(change.change_type) {
        Some(ConfChangeType::AddNode) => voters.push(replica),
        Some(ConfChangeType::AddLearnerNode) => learners.push(replica),
        _ => {}
    }
    voters.sort_unstable();
    learners.sort_unstable();
    ConfState { voters, learners, ..Default::default() }
}

pub struct Log {
    pub hard: HardState,
    /// As of `applied`.
    pub conf: ConfState,
    pub applied: u64,
    /// Index and term before the first entry, and the configuration there: what a restart begins with.
    pub floor: u64,
    pub floor_term: u64,
    pub floor_conf: ConfState,
    entries: VecDeque<Entry>,
    /// Payload octets that one append may carry.
    append_bytes: u64,
}

impl Log {
    pub fn new(floor: (u64, u64), conf: ConfState, hard: HardState, entries: Vec<Entry>, append_bytes: u64) -> Self {
        Log {
            hard,
            conf: conf.clone(),
            applied: floor.0,
            floor: floor.0,
            floor_term: floor.1,
            floor_conf: conf,
            entries: entries.into(),
            append_bytes,
        }
    }

    pub fn last(&self) -> u64 {
        self.floor + self.entries.len() as u64
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(index.checked_sub(self.floor + 1)?).ok()?)
    }

    /// Takes the configuration along to `applied`: what a restart does for the entries below it.
    pub fn apply_to(&mut self, applied: u64) -> std::result::Result<(), String> {
        for index in self.applied + 1..=applied {
            let entry = self.at(index).ok_or_else(|| format!("applied {applied} is above the log"))?;
            if is_conf_change(entry) {
                self.conf = changed(&self.conf, &conf_change_of(entry)?);
            }
        }
        self.applied = applied;
        Ok(())
    }

    pub fn append(&mut self, new: Vec<Entry>) {
        if let Some(first) = new.first() {
            assert!(first.index > self.floor && first.index <= self.last() + 1, "a gap before entry {}", first.index);
            self.entries.truncate((first.index - self.floor - 1) as usize);
            self.entries.extend(new);
        }
    }

    /// Begins anew above a snapshot.
    pub fn restore(&mut self, index: u64, term: u64, conf: ConfState) {
        self.entries.clear();
        (self.floor, self.floor_term, self.applied) = (index, term, index);
        self.floor_conf = conf.clone();
        self.conf = conf;
    }

    /// Forgets entries up to `index`, none that is not applied.
    pub fn compact(&mut self, index: u64) {
        while self.floor < index.min(self.applied) {
            let Some(entry) = self.entries.pop_front() else { break };
            if is_conf_change(&entry) {
                let change = conf_change_of(&entry).expect("an applied change was checked");
                self.floor_conf = changed(&self.floor_conf, &change);
            }
            (self.floor, self.floor_term) = (entry.index, entry.term);
        }
    }
}

impl Storage for Log {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState { hard_state: self.hard.clone(), conf_state: self.conf.clone() })
    }

    fn entries(&self, low: u64, high: u64, max: impl Into<Option<u64>>, _: GetEntriesContext) -> Result<Vec<Entry>> {
        if low <= self.floor {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        if high > self.last() + 1 {
            return Err(raft::Error::Store(StorageError::Unavailable));
        }
        let (from, to) = ((low - self.floor - 1) as usize, (high - self.floor - 1) as usize);
        let mut found = Vec::new();
        let mut payloads = 0;
        for entry in self.entries.range(from..to) {
            payloads += payload_bytes(entry);
            if payloads > self.append_bytes && !found.is_empty() {
                break;
            }
            found.push(entry.clone());
        }
        raft::util::limit_size(&mut found, max.into());
        Ok(found)
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index == self.floor {
            return Ok(self.floor_term);
        }
        if index < self.floor {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        self.at(index).map(|entry| entry.term).ok_or(raft::Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.floor + 1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    /// An offer of state at the applied index, without the state: that is the installer's to bring.
    fn snapshot(&self, request: u64, _to: u64) -> Result<Snapshot> {
        if self.applied == 0 || self.applied < request {
            return Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = self.applied;
        metadata.term = self.term(self.applied)?;
        metadata.conf_state = Some(self.conf.clone());
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64, payload: u32) -> Entry {
        let mut data = vec![0; DESCRIPTOR_BYTES];
        data[..4].copy_from_slice(&payload.to_le_bytes());
        Entry { index, term, data, ..Default::default() }
    }

    fn change(index: u64, kind: ConfChangeType, replica: u64) -> Entry {
        let change = ConfChange { change_type: kind as i32, node_id: replica, ..Default::default() };
        Entry {
            index,
            term: 1,
            entry_type: EntryType::EntryConfChange as i32,
            data: change.encode_to_vec(),
            ..Default::default()
        }
    }

    fn conf(voters: &[u64], learners: &[u64]) -> ConfState {
        ConfState { voters: voters.to_vec(), learners: learners.to_vec(), ..Default::default() }
    }

    fn log(entries: Vec<Entry>) -> Log {
        Log::new((1, 1), conf(&[1], &[]), HardState::default(), entries, 100)
    }

    #[test]
    fn an_append_carries_bounded_payloads_and_always_one() {
        let log = log(vec![entry(2, 1, 60), entry(3, 1, 30), entry(4, 1, 30), entry(5, 1, 500), entry(6, 1, 1)]);
        let count = |low| log.entries(low, 7, None, GetEntriesContext::empty(false)).unwrap().len();
        assert_eq!((count(2), count(4), count(5), count(6)), (2, 1, 1, 1));
    }

    #[test]
    fn a_later_append_replaces_the_end() {
        let mut log = log(vec![entry(2, 1, 0), entry(3, 1, 0)]);
        log.append(vec![entry(3, 2, 0), entry(4, 2, 0)]);
        assert_eq!((log.last(), log.term(3).unwrap(), log.term(2).unwrap()), (4, 2, 1));
    }

    #[test]
    fn the_floor_takes_its_configuration_along() {
        let kinds = (ConfChangeType::AddLearnerNode, ConfChangeType::AddNode, ConfChangeType::RemoveNode);
        let mut log = log(vec![change(2, kinds.0, 7), change(3, kinds.1, 7), change(4, kinds.2, 1)]);
        log.apply_to(3).unwrap();
        assert_eq!(log.conf, conf(&[1, 7], &[]));
        log.compact(2);
        assert_eq!((log.floor, &log.floor_conf), (2, &conf(&[1], &[7])));
        // Never above what is applied.
        log.compact(4);
        assert_eq!(log.floor, 3);
        log.apply_to(4).unwrap();
        assert_eq!(log.conf, conf(&[7], &[]));
        assert!(log.apply_to(9).is_err());
    }

    #[test]
    fn what_is_below_the_floor_is_compacted_and_above_the_end_unavailable() {
        let log = log(vec![entry(2, 1, 0)]);
        assert!(matches!(log.term(0), Err(raft::Error::Store(StorageError::Compacted))));
        assert!(matches!(log.term(3), Err(raft::Error::Store(StorageError::Unavailable))));
        assert!(log.entries(1, 2, None, GetEntriesContext::empty(false)).is_err());
        assert!(log.entries(2, 4, None, GetEntriesContext::empty(false)).is_err());
    }
}
