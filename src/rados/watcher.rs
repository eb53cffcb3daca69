//! Who watches an object.

use std::fmt::Display;
use std::time::Duration;

use super::connection::Failure;
#[cfg(feature = "list-watchers")]
use super::pool::Pool;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::ffi::io::Watch;
#[cfg(feature = "list-watchers")]
use crate::ffi::watchers::WatchersRequest;
use crate::watcher::Watcher;

/// How often a wait looks again: one small operation of one object each time.
const POLL: Duration = Duration::from_millis(200);

#[cfg(feature = "list-watchers")]
const LIST: &str = "list watchers of object";

#[cfg(feature = "list-watchers")]
impl Pool {
    /// Who watches an object, such as an image's header: what `rados listwatchers` prints, and each watch's time-out.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such object: never an empty list. `Unsupported` where the installed librados lacks
    /// the C++ function.
    #[doc(alias = "listwatchers")]
    pub fn list_watchers(&self, object: impl AsRef<str>) -> Result<Vec<Watcher>> {
        self.ask(LIST, object.as_ref(), |io, object, limit| {
            parse(io.ask_watchers(object)?.wait(|operation| limit.bind(operation))?)
        })
        .map_err(name_missing_function)
    }

    /// The first half of [`list_watchers`](Self::list_watchers): sends the question.
    pub(crate) fn ask_watchers(&self, object: &str) -> Result<WatchersRequest> {
        self.object(LIST, object, |io, object| io.ask_watchers(object)).map_err(name_missing_function)
    }

    /// The other half: waits for the answer.
    pub(crate) fn hear_watchers(&self, object: &str, request: WatchersRequest) -> Result<Vec<Watcher>> {
        let answer = move || parse(request.wait(|_| ())?);
        self.connection.call_and_parse(LIST, &format_args!("{self}/{object}"), self.deadline, answer)
    }

    /// Waits until nobody watches an object but those whom `exclude` picks. How long a silent client's watch lasts is
    /// the OSDs' choice: nothing here assumes a time.
    ///
    /// # Errors
    ///
    /// `TimedOut` when `deadline` has passed; [`Details::Watchers`] says who is left. `NotFound` where there is no such
    /// object, or it is removed meanwhile.
    pub fn wait_until_unwatched(
        &self,
        object: impl AsRef<str>,
        exclude: impl Fn(&Watcher) -> bool,
        deadline: Duration,
    ) -> Result<()> {
        let object = object.as_ref();
        wait_until_unwatched(&format_args!("{self}/{object}"), exclude, deadline, |left| {
            self.with_deadline(left).list_watchers(object)
        })
    }
}

#[cfg(feature = "list-watchers")]
fn name_missing_function(error: Error) -> Error {
    const FUNCTION: &str = "librados::ObjectReadOperation::list_watchers";
    match error.errno() {
        // The shim's word for a librados without it.
        Some(libc::ENOSYS) => error.with_details(Details::MissingFunction { function: FUNCTION, since: "15.2" }),
        _ => error,
    }
}

/// What C lists, with the addresses parsed.
pub(crate) fn parse(watches: Vec<Watch>) -> Result<Vec<Watcher>, Failure> {
    let watchers = watches.into_iter().map(|watch| {
        let mut watcher = Watcher::new(watch.address.parse()?, watch.client, watch.cookie);
        watcher.timeout = watch.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Ok(watcher)
    });
    watchers.collect()
}

/// Polls `list`, which gets the time that is left, until it lists nobody but those whom `exclude` picks.
pub(crate) fn wait_until_unwatched(
    object: &dyn Display,
    exclude: impl Fn(&Watcher) -> bool,
    allowed: Duration,
    mut list: impl FnMut(Duration) -> Result<Vec<Watcher>>,
) -> Result<()> {
    let deadline = Deadline::after(Some(allowed));
    let left = look_until_none(deadline, exclude, || list(deadline.left().unwrap_or(allowed)))?;
    if left.is_empty() {
        return Ok(());
    }
    let error = Error::new(ErrorKind::TimedOut, "wait until nobody watches").with_object(object);
    Err(error.with_details(Details::Watchers(left)))
}

/// Looks again and again until nobody is there but those whom `exclude` picks, or the time is over: then it returns who
/// is left.
pub(crate) fn look_until_none<T>(
    deadline: Deadline,
    exclude: impl Fn(&T) -> bool,
    mut look: impl FnMut() -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut left = Vec::new();
    loop {
        match look() {
            // The deadline passed over this look: those of the one before are left.
            Err(error) if error.kind() == ErrorKind::TimedOut && !left.is_empty() => {}
            found => {
                left = found?;
                left.retain(|found| !exclude(found));
                if left.is_empty() {
                    return Ok(left);
                }
            }
        }
        std::thread::sleep(POLL.min(deadline.left().unwrap_or(POLL)));
        // There is no time for another look.
        if deadline.is_over() {
            return Ok(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher(client: u64) -> Watcher {
        Watcher::new("192.0.2.10:0/1".parse().unwrap(), client, 0xffff_0000_0000_0001)
    }

    fn wait(allowed: Duration, exclude: &[u64], mut answers: impl FnMut() -> Vec<Watcher>) -> Result<()> {
        wait_until_unwatched(&"p/o", |watcher| exclude.contains(&watcher.client), allowed, |_| Ok(answers()))
    }

    #[test]
    fn a_watcher_that_goes_away_ends_the_wait() {
        let mut answers = [vec![watcher(1)], vec![watcher(1)], vec![]].into_iter();
        wait(Duration::from_secs(60), &[], || answers.next().unwrap()).unwrap();
        assert_eq!(answers.next(), None);
    }

    #[test]
    fn a_watcher_that_stays_is_in_the_error_of_the_time_out() {
        let error = wait(Duration::from_millis(1), &[], || vec![watcher(1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.details(), &Details::Watchers(vec![watcher(1)]));
    }

    #[test]
    fn a_look_that_the_deadline_cuts_off_leaves_those_of_the_one_before() {
        let mut looks = 0;
        let look = |left: Duration| {
            looks += 1;
            if looks == 1 {
                return Ok(vec![watcher(1)]);
            }
            std::thread::sleep(left);
            Err(Error::new(ErrorKind::TimedOut, "list watchers"))
        };
        // Long enough for a second look on a host that has much else to do.
        let error = wait_until_unwatched(&"p/o", |_| false, 15 * POLL, look).unwrap_err();
        assert_eq!((error.kind(), looks), (ErrorKind::TimedOut, 2));
        assert_eq!(error.details(), &Details::Watchers(vec![watcher(1)]));
    }

    /// Case B05: the image itself and two mirror daemons do not count, whatever their number.
    #[test]
    fn those_excluded_do_not_count() {
        let mirrored = || vec![watcher(901), watcher(777), watcher(778)];
        wait(Duration::ZERO, &[901, 777, 778], mirrored).unwrap();
        let used = || [mirrored(), vec![watcher(1001)]].concat();
        let error = wait(Duration::ZERO, &[901, 777, 778], used).unwrap_err();
        assert_eq!(error.details(), &Details::Watchers(vec![watcher(1001)]));
    }
}
