//! Who watches an image.

use std::time::Duration;

use super::Image;
use crate::error::Result;
use crate::rados::watcher::{parse, wait_until_unwatched};
use crate::watcher::Watcher;

impl Image {
    /// Who watches the image: every client that has it open to write. This handle is among them if it is open
    /// read-write; its client number is [`Cluster::instance_id`](crate::Cluster::instance_id).
    ///
    /// How long a watch outlives its client is not told here;
    /// `Pool::list_watchers` of the header object tells it.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_watchers_list")]
    pub fn watchers(&self) -> Result<Vec<Watcher>> {
        self.call_and_parse("list watchers of image", |image| parse(image.watchers()?))
    }

    /// Waits until nobody watches the image but those whom `exclude` picks, such as this program itself or known
    /// mirror daemons. How long a silent client's watch lasts is the OSDs' choice: nothing here assumes a time.
    ///
    /// # Errors
    ///
    /// `TimedOut` when `deadline` has passed; [`Details::Watchers`](crate::Details::Watchers) says who is left.
    pub fn wait_until_unwatched(&self, exclude: impl Fn(&Watcher) -> bool, deadline: Duration) -> Result<()> {
        wait_until_unwatched(&self.label, exclude, deadline, |left| self.with_deadline(left).watchers())
    }
}
