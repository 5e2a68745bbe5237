//! One group: a RawNode, its log, and the messages that wait until what they speak of is on disk.

use std::collections::VecDeque;

use raft::eraftpb::{ConfChange, ConfChangeType, ConfState, Entry, Message, MessageType};
use raft::{Config, ProgressState, RawNode, SnapshotStatus, StateRole};

use crate::frame::{is_heavy, APPEND_ENTRY_BYTES};
use crate::log::{changed, conf_change_of, is_conf_change, Log};

/// Descriptors that one ready hands out as committed; about two thousand.
const COMMITTED_BYTES_A_READY: u64 = 64 << 10;
/// Descriptors that a leader may have uncommitted; payloads are limited by the caller.
const UNCOMMITTED_BYTES: u64 = 4 << 20;

/// What happened in some groups since the last time.
#[derive(Default)]
pub struct Harvest {
    pub appends: Vec<(u64, Entry)>,
    pub states: Vec<(u64, u64, u64, u64)>,
    pub numbers: Vec<(u64, u64)>,
    pub messages: Vec<(u64, Message)>,
    pub committed: Vec<(u64, Entry)>,
    pub roles: Vec<(u64, u64, u64, bool)>,
    pub configurations: Vec<(u64, u64, ConfState)>,
    pub installs: Vec<(u64, u64, u64, ConfState)>,
}

/// Dice that repeat: the crate's own are replaced by these before they count.
pub struct Dice(pub u64);

impl Dice {
    /// splitmix64
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

struct Held {
    number: u64,
    must_sync: bool,
    snapshot: u64,
    messages: Vec<Message>,
}

pub struct Group {
    pub node: RawNode<Log>,
    pub dirty: bool,
    held: VecDeque<Held>,
    timeout: usize,
    /// Ticks until an election, rolled anew when term or role changes.
    patience: usize,
    rolled_for: (u64, StateRole),
    told: (u64, u64, bool),
}

impl Group {
    pub fn new(
        replica: u64, log: Log, timeout: usize, heartbeat: usize, inflight: usize, logger: &slog::Logger,
    ) -> Result<Self, String> {
        let config = Config {
            id: replica,
            election_tick: timeout,
            min_election_tick: timeout,
            max_election_tick: 2 * timeout,
            heartbeat_tick: heartbeat,
            applied: log.applied,
            max_size_per_msg: APPEND_ENTRY_BYTES,
            max_inflight_msgs: inflight,
            max_committed_size_per_ready: COMMITTED_BYTES_A_READY,
            max_uncommitted_size: UNCOMMITTED_BYTES,
            check_quorum: true,
            pre_vote: true,
            // The crate's batching lets a follower acknowledge entries that it lacks.
            batch_append: false,
            ..Default::default()
        };
        let node = RawNode::new(&config, log, logger).map_err(|error| error.to_string())?;
        let rolled_for = (u64::MAX, StateRole::Follower);
        Ok(Group {
            node, dirty: false, held: VecDeque::new(), timeout, patience: timeout, rolled_for, told: (0, 0, false),
        })
    }

    pub fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    pub fn last(&self) -> u64 {
        self.node.raft.raft_log.last_index()
    }

    /// Whether state was installed that is not on disk yet. The log begins above it, but the crate counts as applied what it
    /// had before, and would look there for changes of members if it campaigned.
    fn installs(&self) -> bool {
        self.held.iter().any(|held| held.snapshot > 0)
    }

    pub fn tick(&mut self, dice: &mut Dice) -> bool {
        if self.installs() {
            return false;
        }
        let raft = &mut self.node.raft;
        if self.rolled_for != (raft.term, raft.state) {
            self.rolled_for = (raft.term, raft.state);
            self.patience = self.timeout + (dice.roll() % self.timeout as u64) as usize;
        }
        raft.set_randomized_election_timeout(self.patience);
        self.node.tick()
    }

    /// Term and index of the new entry; zeros where this replica does not lead, hands its leadership over or is full.
    pub fn propose(&mut self, descriptor: &[u8]) -> (u64, u64) {
        if !self.leads() || self.node.propose(vec![], descriptor.to_vec()).is_err() {
            return (0, 0);
        }
        (self.node.raft.term, self.last())
    }

    /// As `propose`; zeros as well while an earlier change is not applied.
    pub fn propose_conf_change(&mut self, kind: ConfChangeType, replica: u64) -> Result<(u64, u64), String> {
        if !self.leads() || self.node.raft.has_pending_conf() {
            return Ok((0, 0));
        }
        let change = ConfChange { change_type: kind as i32, node_id: replica, ..Default::default() };
        let after = changed(&self.node.store().conf, &change);
        if !after.voters.contains(&self.node.raft.id) {
            return Err("the leader cannot remove or demote itself; transfer its leadership first".into());
        }
        crate::frame::check_members(&after.voters, &after.learners)?;
        if self.node.propose_conf_change(vec![], change).is_err() {
            return Ok((0, 0));
        }
        Ok((self.node.raft.term, self.last()))
    }

    pub fn transfer_leader(&mut self, replica: u64) -> bool {
        if !self.leads() || !self.node.store().conf.voters.contains(&replica) {
            return false;
        }
        self.node.transfer_leader(replica);
        true
    }

    /// Steps a message that `frame::parse` found good. An error is the sender's, who says what cannot be.
    pub fn step(&mut self, message: Message) -> Result<(), String> {
        let raft = &self.node.raft;
        if message.to != raft.id {
            // For a replica that was here before.
            return Ok(());
        }
        if message.msg_type == MessageType::MsgTimeoutNow as i32 && self.installs() {
            return Ok(());
        }
        let last = self.last();
        let is = |kind: MessageType| message.msg_type == kind as i32;
        if is(MessageType::MsgAppendResponse) && self.leads() && message.term == raft.term && !message.reject {
            if message.index > last {
                let (from, index) = (message.from, message.index);
                return Err(format!("replica {from} acknowledges entry {index}, but the leader's log ends at {last}"));
            }
        }
        if is(MessageType::MsgHeartbeat) && message.term >= raft.term && message.commit > last {
            panic!(
                "the leader says that entry {} was acknowledged by this replica, but its log ends at {last}: synced entries are lost",
                message.commit
            );
        }
        // Whether it was of use does not matter: stale messages are part of the protocol.
        let _ = self.node.step(message);
        Ok(())
    }

    pub fn take_ready(&mut self, id: u64, harvest: &mut Harvest) {
        let mut ready = self.node.ready();
        let (number, must_sync) = (ready.number(), ready.must_sync());
        harvest.messages.extend(ready.take_messages().into_iter().map(|message| (id, message)));
        // Appends of one who led until just now are of no use any more.
        let mut messages = ready.take_persisted_messages();
        messages.retain(|message| !is_heavy(message));
        let mut snapshot = 0;
        if let Some(metadata) = ready.snapshot().metadata.as_ref().filter(|metadata| metadata.index > 0) {
            snapshot = metadata.index;
            let conf = metadata.conf_state.clone().unwrap_or_default();
            harvest.installs.push((id, metadata.index, metadata.term, conf.clone()));
            self.node.mut_store().restore(metadata.index, metadata.term, conf);
        }
        if let Some(hard) = ready.hs() {
            harvest.states.push((id, hard.term, hard.vote, hard.commit));
            self.node.mut_store().hard = hard.clone();
        }
        let entries = ready.take_entries();
        harvest.appends.extend(entries.iter().map(|entry| (id, entry.clone())));
        // Entries must be readable before the ready is advanced.
        self.node.mut_store().append(entries);
        let committed = ready.take_committed_entries();
        self.node.advance_append_async(ready);
        self.apply(id, committed, harvest);
        self.held.push_back(Held { number, must_sync, snapshot, messages });
        if must_sync {
            harvest.numbers.push((id, number));
        }
        self.release(id, 0, &mut harvest.messages);
        self.tell_role(id, harvest);
    }

    fn apply(&mut self, id: u64, committed: Vec<Entry>, harvest: &mut Harvest) {
        let Some(last) = committed.last().map(|entry| entry.index) else { return };
        for entry in committed {
            if is_conf_change(&entry) {
                self.change_conf(id, &entry, harvest);
            }
            self.node.mut_store().applied = entry.index;
            harvest.committed.push((id, entry));
        }
        self.node.advance_apply_to(last);
    }

    fn change_conf(&mut self, id: u64, entry: &Entry, harvest: &mut Harvest) {
        let change = conf_change_of(entry).expect("entries were checked");
        let expected = changed(&self.node.store().conf, &change);
        let mut conf = self.node.apply_conf_change(&change).expect("a change was checked when it was proposed");
        conf.voters.sort_unstable();
        conf.learners.sort_unstable();
        assert_eq!(conf, expected, "the configuration after entry {}", entry.index);
        self.node.mut_store().conf = conf.clone();
        if self.leads() && !conf.voters.contains(&self.node.raft.id) {
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, 0);
        }
        harvest.configurations.push((id, entry.index, conf));
    }

    /// All up to the ready of this number is on disk.
    pub fn persisted(&mut self, id: u64, number: u64, messages: &mut Vec<(u64, Message)>) -> Result<(), String> {
        if self.held.back().map_or(true, |held| number > held.number) {
            return Err(format!("ready {number} was not handed out, or was reported before"));
        }
        self.release(id, number, messages);
        Ok(())
    }

    /// Lets go of what is on disk, and behind it of what needs no disk.
    fn release(&mut self, id: u64, number: u64, messages: &mut Vec<(u64, Message)>) {
        while let Some(held) = self.held.front() {
            if held.must_sync && held.number > number {
                break;
            }
            let held = self.held.pop_front().expect("there is a front");
            self.node.on_persist_ready(held.number);
            if held.snapshot > 0 {
                self.node.advance_apply_to(held.snapshot);
            }
            messages.extend(held.messages.into_iter().map(|message| (id, message)));
        }
    }

    fn tell_role(&mut self, id: u64, harvest: &mut Harvest) {
        let raft = &self.node.raft;
        let role = (raft.leader_id, raft.term, self.leads());
        if role != self.told {
            self.told = role;
            harvest.roles.push((id, role.0, role.1, role.2));
        }
    }

    /// What was sent to the replicas of a node may be lost.
    pub fn unreachable(&mut self, node: u64) {
        let here = self.node.raft.id;
        let replicas: Vec<(u64, ProgressState)> = self.node.raft.prs().iter()
            .filter(|(id, _)| crate::frame::node_of(**id) == node && **id != here)
            .map(|(id, progress)| (*id, progress.state))
            .collect();
        for (replica, state) in replicas {
            self.node.report_unreachable(replica);
            if state == ProgressState::Snapshot {
                self.node.report_snapshot(replica, SnapshotStatus::Failure);
            }
        }
    }
}
