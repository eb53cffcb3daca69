//! Notifying the watchers of an object: who is alive, and who is not.

use std::time::Duration;

use super::pool::Pool;
use crate::encoding::{take_count, take_string, take_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::rados::connection::Failure;
use crate::watcher::Watcher;

/// Which watch it is: a client, and one of its watches on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Watch {
    /// The client's id: the number in `client.4235`.
    pub client: u64,
    /// The watch's cookie.
    pub cookie: u64,
}

impl Watch {
    /// Whether this is the watch that a list of watchers has.
    pub fn is_of(&self, watcher: &Watcher) -> bool {
        (self.client, self.cookie) == (watcher.client, watcher.cookie)
    }
}

/// A watcher's answer to a notify.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Acknowledgement {
    /// Whose it is.
    pub watch: Watch,
    /// What it answered; most often nothing.
    pub payload: Vec<u8>,
}

/// Who acknowledged a notify, and who did not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NotifyReply {
    /// The answers.
    pub acknowledged: Vec<Acknowledgement>,
    /// The watches that were there and did not answer in time.
    pub silent: Vec<Watch>,
}

impl Pool {
    /// Sends `payload` to everybody who watches an object, and waits until each has acknowledged it, or `timeout` has
    /// passed: that is no error, but says who is silent. librados counts whole seconds; more is rounded up.
    ///
    /// What watchers make of the payload is theirs: those of an image's header object expect librbd's messages.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such object; `TimedOut` where the OSD did not answer, or the pool's own deadline is
    /// shorter than the wait.
    #[doc(alias = "rados_notify2")]
    #[doc(alias = "rados_decode_notify_response")]
    pub fn notify(&self, object: impl AsRef<str>, payload: &[u8], timeout: Duration) -> Result<NotifyReply> {
        let (payload, seconds) = (payload.to_vec(), whole_seconds(timeout));
        self.object("notify watchers of object", object.as_ref(), move |io, object| {
            let reply = io.notify(object, &payload, seconds)?;
            parse(&reply).ok_or_else(|| Failure::Answer(Error::new(ErrorKind::InvalidData, "decode reply to notify")))
        })
    }
}

/// Zero would be the OSD's own default.
fn whole_seconds(timeout: Duration) -> u32 {
    let seconds = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}

/// A map of (client, cookie) to what that one answered, then the set of those who did not.
fn parse(mut reply: &[u8]) -> Option<NotifyReply> {
    // The OSD's reply to a notify that nobody was there for.
    if reply.is_empty() {
        return Some(NotifyReply::default());
    }
    let data = &mut reply;
    let mut acknowledged = Vec::new();
    for _ in 0..take_count(data, 20)? {
        let watch = take_watch(data)?;
        acknowledged.push(Acknowledgement { watch, payload: take_string(data)?.to_vec() });
    }
    let mut silent = Vec::new();
    for _ in 0..take_count(data, 16)? {
        silent.push(take_watch(data)?);
    }
    Some(NotifyReply { acknowledged, silent })
}

fn take_watch(data: &mut &[u8]) -> Option<Watch> {
    Some(Watch { client: take_u64(data)?, cookie: take_u64(data)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(reply: &NotifyReply) -> Vec<u8> {
        let mut data = u32::try_from(reply.acknowledged.len()).unwrap().to_le_bytes().to_vec();
        let watch = |watch: &Watch| [watch.client.to_le_bytes(), watch.cookie.to_le_bytes()].concat();
        for Acknowledgement { watch: whose, payload } in &reply.acknowledged {
            data.extend(watch(whose));
            data.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
            data.extend(payload);
        }
        data.extend(u32::try_from(reply.silent.len()).unwrap().to_le_bytes());
        reply.silent.iter().for_each(|silent| data.extend(watch(silent)));
        data
    }

    prop_compose! {
        fn watch()(client: u64, cookie: u64) -> Watch {
            Watch { client, cookie }
        }
    }

    prop_compose! {
        fn acknowledgement()(watch in watch(), payload in prop::collection::vec(any::<u8>(), 0..9)) -> Acknowledgement {
            Acknowledgement { watch, payload }
        }
    }

    proptest! {
        #[test]
        fn a_reply_is_read_back_and_is_nothing_when_cut_off(
            acknowledged in prop::collection::vec(acknowledgement(), 0..4),
            silent in prop::collection::vec(watch(), 0..4),
        ) {
            let reply = NotifyReply { acknowledged, silent };
            let data = encode(&reply);
            for end in 1..data.len() {
                prop_assert_eq!(parse(&data[..end]), None);
            }
            prop_assert_eq!(parse(&data), Some(reply));
        }

        #[test]
        fn no_bytes_make_it_panic_or_grow(data in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&data);
        }
    }

    #[test]
    fn a_time_out_is_rounded_up_to_whole_seconds_and_never_the_osds_own() {
        let seconds = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([seconds(0), seconds(1), seconds(1000), seconds(1001)], [1, 1, 1, 2]);
        assert_eq!(whole_seconds(Duration::MAX), u32::MAX);
    }
}
