//! Messages between replicas as octets, and what of them is believed.
//!
//! A frame is a row of messages: group (u64), length (u32), both big-endian, and the message as protobuf. A frame is checked
//! as a whole before any of it is stepped. What can be seen from the frame alone is checked here, what depends on the group's
//! state in group.rs.

use prost::Message as _;
use raft::eraftpb::{Entry, EntryType, Message, MessageType};

use crate::log::{conf_change_of, is_conf_change, DESCRIPTOR_BYTES};

pub const FRAME_BYTES_MAX: usize = 1 << 20;
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Entries of one append without their payloads; about a thousand.
pub const APPEND_ENTRY_BYTES: u64 = 32 << 10;
/// Of terms, indexes and ids: sums of two never overflow.
pub const NUMBER_MAX: u64 = 1 << 62;
const HEAD_BYTES: usize = 12;
const MEMBERS_MAX: usize = 64;
const CONF_CHANGE_BYTES_MAX: usize = 64;
const CAMPAIGN_TRANSFER: &[u8] = b"CampaignTransfer";

/// The node of a replica: the upper half of its id.
pub fn node_of(replica: u64) -> u64 {
    replica >> 32
}

pub fn put(frame: &mut Vec<u8>, group: u64, message: &Message) {
    frame.extend_from_slice(&group.to_be_bytes());
    frame.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    message.encode(frame).expect("a Vec grows");
}

/// Whether payloads travel behind a message, or the state of a group.
pub fn is_heavy(message: &Message) -> bool {
    message.msg_type == MessageType::MsgSnapshot as i32 || message.entries.iter().any(|entry| !entry.data.is_empty())
}

/// All messages of a frame with their groups, checked.
pub fn parse(frame: &[u8], sender: u64) -> Result<Vec<(u64, Message)>, String> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(format!("frame of {} octets, at most {FRAME_BYTES_MAX}", frame.len()));
    }
    let mut found = Vec::new();
    let mut rest = frame;
    while !rest.is_empty() {
        let head = rest.get(..HEAD_BYTES).ok_or("frame ends within the head of a message")?;
        let group = u64::from_be_bytes(head[..8].try_into().expect("eight octets"));
        let length = u32::from_be_bytes(head[8..].try_into().expect("four octets")) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(format!("message of {length} octets, at most {MESSAGE_BYTES_MAX}"));
        }
        let body = rest.get(HEAD_BYTES..HEAD_BYTES + length).ok_or("frame ends within a message")?;
        let message = Message::decode(body).map_err(|error| format!("group {group}: {error}"))?;
        check(&message, sender).map_err(|wrong| format!("group {group}: {wrong}"))?;
        found.push((group, message));
        rest = &rest[HEAD_BYTES + length..];
    }
    Ok(found)
}

fn check(message: &Message, sender: u64) -> Result<(), String> {
    let kind = MessageType::from_i32(message.msg_type).ok_or(format!("message of kind {}", message.msg_type))?;
    use MessageType::*;
    match kind {
        MsgAppend | MsgAppendResponse | MsgRequestVote | MsgRequestVoteResponse | MsgSnapshot | MsgHeartbeat
        | MsgHeartbeatResponse | MsgTimeoutNow | MsgRequestPreVote | MsgRequestPreVoteResponse => {}
        _ => return Err(format!("{kind:?} is not for other replicas")),
    }
    if node_of(message.from) != sender || message.from == message.to || message.to == 0 {
        return Err(format!("{kind:?} from replica {} to {} over the link of node {sender}", message.from, message.to));
    }
    let m = message;
    let largest = [m.term, m.log_term, m.index, m.commit, m.commit_term, m.reject_hint].into_iter().max().unwrap_or(0);
    if m.term == 0 || largest > NUMBER_MAX || m.log_term > m.term || m.commit_term > m.term {
        return Err(format!("{kind:?} with term {}, log term {}, index {}", m.term, m.log_term, m.index));
    }
    let may_transfer = kind == MsgRequestVote && m.context == CAMPAIGN_TRANSFER;
    if m.request_snapshot != 0 || m.priority != 0 || m.deprecated_priority != 0 || !(m.context.is_empty() || may_transfer) {
        return Err(format!("{kind:?} with fields that are not in use"));
    }
    if kind != MsgAppend && !m.entries.is_empty() || kind != MsgSnapshot && m.snapshot.is_some() {
        return Err(format!("{kind:?} with entries or a snapshot"));
    }
    match kind {
        MsgAppend => check_entries(&m.entries, m.index, m.log_term, m.term),
        MsgSnapshot => check_snapshot(m),
        _ => Ok(()),
    }
}

/// Entries follow each other and `(index, term)`; terms do not fall and none is above `term_max`.
pub fn check_entries(entries: &[Entry], index: u64, term: u64, term_max: u64) -> Result<(), String> {
    let mut before = term;
    for (number, entry) in entries.iter().enumerate() {
        if entry.index != index + 1 + number as u64 || entry.index > NUMBER_MAX {
            return Err(format!("entry {} where {} follows", entry.index, index + 1 + number as u64));
        }
        if entry.term == 0 || entry.term < before || entry.term > term_max {
            return Err(format!("entry {} of term {} after {before}, at most {term_max}", entry.index, entry.term));
        }
        before = entry.term;
        let is_normal = entry.entry_type == EntryType::EntryNormal as i32;
        if is_normal && !(entry.data.is_empty() || entry.data.len() == DESCRIPTOR_BYTES) || !entry.context.is_empty() {
            return Err(format!("entry {} with {} octets", entry.index, entry.data.len()));
        }
        if !is_normal {
            if !is_conf_change(entry) || entry.data.len() > CONF_CHANGE_BYTES_MAX {
                return Err(format!("entry {} of kind {}", entry.index, entry.entry_type));
            }
            conf_change_of(entry)?;
        }
    }
    Ok(())
}

fn check_snapshot(message: &Message) -> Result<(), String> {
    let snapshot = message.snapshot.as_ref().ok_or("snapshot without content")?;
    let metadata = snapshot.metadata.as_ref().ok_or("snapshot without metadata")?;
    let conf = metadata.conf_state.as_ref().ok_or("snapshot without configuration")?;
    if metadata.index == 0 || metadata.index > NUMBER_MAX || metadata.term == 0 || metadata.term > message.term {
        return Err(format!("snapshot at index {} of term {}", metadata.index, metadata.term));
    }
    if !snapshot.data.is_empty() || !conf.voters_outgoing.is_empty() || !conf.learners_next.is_empty() || conf.auto_leave {
        return Err("snapshot with data or a joint configuration".into());
    }
    check_members(&conf.voters, &conf.learners)?;
    if conf.voters.is_empty() {
        return Err("snapshot without voters".into());
    }
    Ok(())
}

pub fn check_members(voters: &[u64], learners: &[u64]) -> Result<(), String> {
    let mut all: Vec<u64> = voters.iter().chain(learners).copied().collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    if count > MEMBERS_MAX || all.len() != count || all.first() == Some(&0) {
        return Err(format!("voters {voters:?} and learners {learners:?}: {MEMBERS_MAX} at most, each once, none is 0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::eraftpb::{ConfState, Snapshot, SnapshotMetadata};

    const A: u64 = 1 << 32;
    const B: u64 = 2 << 32;

    fn message(kind: MessageType) -> Message {
        Message { msg_type: kind as i32, from: A, to: B, term: 3, ..Default::default() }
    }

    fn append(entries: Vec<Entry>) -> Message {
        Message { index: 4, log_term: 2, entries, ..message(MessageType::MsgAppend) }
    }

    fn entry(index: u64, term: u64, data: usize) -> Entry {
        Entry { index, term, data: vec![0; data], ..Default::default() }
    }

    fn judge(message: &Message) -> Result<usize, String> {
        let mut frame = Vec::new();
        put(&mut frame, 9, message);
        parse(&frame, 1).map(|found| found.len())
    }

    #[test]
    fn what_replicas_say_passes() {
        assert_eq!(judge(&message(MessageType::MsgHeartbeat)), Ok(1));
        assert_eq!(judge(&append(vec![entry(5, 2, 16), entry(6, 3, 0)])), Ok(1));
        let transfer = Message { context: CAMPAIGN_TRANSFER.to_vec(), ..message(MessageType::MsgRequestVote) };
        assert_eq!(judge(&transfer), Ok(1));
        assert_eq!(parse(&[], 1).unwrap().len(), 0);
    }

    #[test]
    fn local_and_unknown_kinds_are_refused() {
        for kind in [0, 1, 2, 10, 11, 12, 13, 15, 16, 19, -1] {
            assert!(judge(&Message { msg_type: kind, ..message(MessageType::MsgAppend) }).is_err(), "{kind}");
        }
    }

    #[test]
    fn a_message_comes_from_the_node_of_its_link() {
        assert!(judge(&Message { from: B, to: A, ..message(MessageType::MsgHeartbeat) }).is_err());
        assert!(judge(&Message { to: A, ..message(MessageType::MsgHeartbeat) }).is_err());
        assert!(judge(&Message { to: 0, ..message(MessageType::MsgHeartbeat) }).is_err());
    }

    #[test]
    fn numbers_are_bounded() {
        let heartbeat = message(MessageType::MsgHeartbeat);
        assert!(judge(&Message { term: 0, ..heartbeat.clone() }).is_err());
        assert!(judge(&Message { term: u64::MAX, ..heartbeat.clone() }).is_err());
        assert!(judge(&Message { commit: NUMBER_MAX + 1, ..heartbeat.clone() }).is_err());
        assert!(judge(&Message { log_term: 4, ..heartbeat }).is_err());
    }

    #[test]
    fn entries_follow_each_other() {
        assert!(judge(&append(vec![entry(6, 2, 0)])).is_err(), "a gap");
        assert!(judge(&append(vec![entry(5, 3, 0), entry(6, 2, 0)])).is_err(), "terms that fall");
        assert!(judge(&append(vec![entry(5, 1, 0)])).is_err(), "below the term before");
        assert!(judge(&append(vec![entry(5, 4, 0)])).is_err(), "of a term to come");
        assert!(judge(&append(vec![entry(5, 3, 15)])).is_err(), "half a descriptor");
        assert!(judge(&append(vec![Entry { entry_type: 1, ..entry(5, 3, 2) }])).is_err(), "no change");
        assert!(judge(&append(vec![Entry { entry_type: 2, ..entry(5, 3, 0) }])).is_err(), "of another kind");
    }

    #[test]
    fn snapshots_name_their_members() {
        let with = |conf: ConfState| {
            let metadata = SnapshotMetadata { index: 3, term: 2, conf_state: Some(conf) };
            let snapshot = Snapshot { metadata: Some(metadata), ..Default::default() };
            judge(&Message { snapshot: Some(snapshot), ..message(MessageType::MsgSnapshot) })
        };
        assert_eq!(with(ConfState { voters: vec![1, 2], learners: vec![3], ..Default::default() }), Ok(1));
        assert!(with(ConfState::default()).is_err());
        assert!(with(ConfState { voters: vec![1, 1], ..Default::default() }).is_err());
        assert!(with(ConfState { voters: vec![1], learners: vec![1], ..Default::default() }).is_err());
        assert!(with(ConfState { voters: vec![1], voters_outgoing: vec![2], ..Default::default() }).is_err());
        assert!(judge(&message(MessageType::MsgSnapshot)).is_err());
    }

    #[test]
    fn torn_frames_are_refused_whole() {
        let mut frame = Vec::new();
        put(&mut frame, 1, &message(MessageType::MsgHeartbeat));
        let whole = frame.len();
        put(&mut frame, 2, &message(MessageType::MsgHeartbeat));
        for end in 1..frame.len() {
            assert_eq!(parse(&frame[..end], 1).is_ok(), end == whole, "{end}");
        }
        assert!(parse(&vec![0; FRAME_BYTES_MAX + 1], 1).is_err());
        assert!(parse(&[&1u64.to_be_bytes()[..], &u32::MAX.to_be_bytes()[..]].concat(), 1).is_err());
    }
}
