//! Processes that ended during the search, and those that started.
//!
//! On a busy host some process ends during every search. It holds nothing any more, but may have left what it held to a
//! child which started after the processes were listed. When all that started meanwhile has been looked at too, nothing
//! was missed.

use std::collections::HashSet;
use std::sync::Arc;

use super::host::Host;
use super::kind::Holder;
use super::namespace::Readings;
use super::open_file::{self, Wanted};
use super::parallel;
use super::task;
use super::unseen::{ProcessPart, Unseen, UnseenReason};
use crate::deadline::Deadline;

/// Newcomers end too, and are followed by others: so many times they are looked at.
const ROUNDS: usize = 5;

/// Looks at the processes that started since `listed`, where any of those ended; and takes from `unseen` those that
/// ended, if that could be done. `wanted` is `None` where files are not looked for.
pub(super) fn look_at(
    host: &Arc<Host>,
    listed: &[i32],
    readings: &Readings,
    wanted: Option<&Arc<Wanted>>,
    deadline: Deadline,
    holders: &mut Vec<Holder>,
    unseen: &mut Vec<Unseen>,
) {
    let mut seen: HashSet<i32> = listed.iter().copied().collect();
    for _ in 0..ROUNDS {
        if !unseen.iter().any(|unseen| gone(unseen).is_some()) {
            return;
        }
        let Ok(now) = host.processes() else { return };
        let newcomers: Arc<Vec<i32>> = Arc::new(now.iter().copied().filter(|pid| seen.insert(*pid)).collect());
        let (reader, target) = (Arc::clone(host), wanted.map(Arc::clone));
        let answers = parallel::each(&newcomers, deadline, move |pid| {
            let views = task::views(&reader, *pid)?;
            let found = target.as_ref().map(|wanted| open_file::find(&reader, wanted, *pid)).transpose()?;
            Ok((views, found.unwrap_or_default()))
        });
        let mut has_ended = false;
        for (pid, answer) in newcomers.iter().zip(answers) {
            match answer.unwrap_or(Err(UnseenReason::TimedOut)) {
                Ok((views, found)) => {
                    holders.extend(found.holders);
                    // A namespace that was not read, or another one that is held open: it stays an open question.
                    if !found.namespaces.is_empty() || views.iter().any(|(view, _)| !readings.views.contains(view)) {
                        return;
                    }
                }
                Err(UnseenReason::Gone) => has_ended = true,
                Err(reason) => unseen.push(Unseen::Process { pid: *pid, part: ProcessPart::Files, reason }),
            }
        }
        if !has_ended {
            let now: HashSet<i32> = now.into_iter().collect();
            unseen.retain(|unseen| gone(unseen).is_none_or(|pid| now.contains(&pid)));
            return;
        }
    }
}

/// The process, if it was not seen because it ended.
fn gone(unseen: &Unseen) -> Option<i32> {
    match unseen {
        Unseen::Process { pid, reason: UnseenReason::Gone, .. } => Some(*pid),
        _ => None,
    }
}
