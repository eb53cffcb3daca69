//! `rados_t`: from its creation to the one call of `rados_shutdown`.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ceph_sys::rados_t;
use zeroize::Zeroizing;

use super::{Errno, c_string, callback, check, fork, grow, grow_text, text};

/// A handle that is created and not yet connected: it takes its configuration now, and nothing else. Calls that
/// crash or hang on a handle that is not connected are not to be had here.
#[derive(Debug)]
pub(crate) struct Unconnected(RadosHandle);

/// A connected handle. librados lets any number of threads use it at once.
pub(crate) struct RadosHandle {
    raw: rados_t,
    /// Of the process that made it. A fork has the memory, but none of librados' threads.
    generation: u32,
    /// Whether it has been seen to have a map of the OSDs, which comes some time after the connect, and stays.
    has_map: AtomicBool,
    /// A handle made elsewhere is not shut down here: this guard is dropped instead.
    keep_alive: Option<KeepAlive>,
    mgr_commands: Mutex<MgrCommands>,
}

/// The commands to the manager that are under way, and the time-out that is off until the last of them ends.
#[derive(Default)]
struct MgrCommands {
    under_way: usize,
    timeout: String,
}

/// One of them.
struct MgrCommand<'a>(&'a RadosHandle);

impl Drop for MgrCommand<'_> {
    fn drop(&mut self) {
        let mut commands = self.0.mgr_commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.under_way -= 1;
        if commands.under_way == 0 {
            // A value that it had before. Without it deadlines still hold.
            let _ = self.0.set(MON_TIMEOUT, &commands.timeout);
        }
    }
}

const MON_TIMEOUT: &str = "rados_mon_op_timeout";

/// What keeps a `rados_t` of other code connected.
pub(crate) type KeepAlive = Box<dyn Any + Send + Sync>;

// SAFETY: librados.h demands synchronisation for the settings of an I/O context and for nothing of `rados_t`;
// `RadosClient` guards its state by a lock. The cluster tests use one handle from 64 threads at once.
unsafe impl Send for RadosHandle {}
// SAFETY: as above.
unsafe impl Sync for RadosHandle {}

impl Unconnected {
    /// `entity` is a full name such as `client.admin`, `cluster` the name used in paths (`ceph`).
    pub(crate) fn create(cluster: &str, entity: &str) -> Result<Self, Errno> {
        let (cluster, entity) = (c_string(cluster)?, c_string(entity)?);
        let mut raw = ptr::null_mut();
        // SAFETY: both strings are NUL-terminated and copied by the call, which sets the handle on success only.
        check(unsafe { ceph_sys::rados_create2(&mut raw, cluster.as_ptr(), entity.as_ptr(), 0) })?;
        Ok(Self(RadosHandle::new(raw, None)))
    }

    /// Reads a configuration file; `paths` may be a comma-separated list, of which the first that exists is read.
    pub(crate) fn read_file(&self, paths: &str) -> Result<(), Errno> {
        let paths = c_string(paths)?;
        // SAFETY: a handle that is alive, and a NUL-terminated string that the call does not keep.
        check(unsafe { ceph_sys::rados_conf_read_file(self.0.raw, paths.as_ptr()) }).map(drop)
    }

    /// Takes over the options on a command line; what is left of it is returned.
    pub(crate) fn parse_arguments<'a>(&self, arguments: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Errno> {
        // There may be a key among them: the copies are wiped.
        let arguments: Vec<_> = arguments.map(|text| Zeroizing::new([text.as_bytes(), b"\0"].concat())).collect();
        let terminated: Result<Vec<&CStr>, _> =
            arguments.iter().map(|bytes| CStr::from_bytes_with_nul(bytes)).collect();
        let mut pointers: Vec<_> = terminated.map_err(|_| Errno::INVALID)?.iter().map(|text| text.as_ptr()).collect();
        let mut left = vec![ptr::null(); pointers.len()];
        let count = c_int::try_from(pointers.len()).map_err(|_| Errno::INVALID)?;
        // SAFETY: `count` NUL-terminated strings, which the call does not keep, and as many places to write to.
        check(unsafe {
            ceph_sys::rados_conf_parse_argv_remainder(self.0.raw, count, pointers.as_mut_ptr(), left.as_mut_ptr())
        })?;
        // SAFETY: the call copied pointers of those given, whose strings are alive, and null for the rest.
        Ok(left.into_iter().take_while(|pointer| !pointer.is_null()).map(|pointer| unsafe { text(pointer) }).collect())
    }

    pub(crate) fn set(&self, option: &str, value: &str) -> Result<(), Errno> {
        self.0.set(option, value)
    }

    pub(crate) fn get(&self, option: &str) -> Result<String, Errno> {
        self.0.config(option)
    }

    /// Connects. On failure the handle is shut down here, once: `rados_shutdown` is safe on one that never connected.
    pub(crate) fn connect(self) -> Result<RadosHandle, Errno> {
        // SAFETY: a handle that is alive and, since `self` is taken, connected once at most.
        check(unsafe { ceph_sys::rados_connect(self.0.raw) })?;
        Ok(self.0)
    }
}

impl RadosHandle {
    fn new(raw: rados_t, keep_alive: Option<KeepAlive>) -> Self {
        Self {
            raw,
            generation: fork::generation(),
            has_map: AtomicBool::new(false),
            keep_alive,
            mgr_commands: Mutex::default(),
        }
    }

    /// A handle that other code made, connected, and will shut down, but not before `keep_alive` is dropped.
    ///
    /// # Safety
    ///
    /// `raw` is a connected `rados_t` and stays so as long as `keep_alive` lives.
    pub(crate) unsafe fn borrowed(raw: rados_t, keep_alive: KeepAlive) -> Self {
        Self::new(raw, Some(keep_alive))
    }

    pub(crate) fn as_raw(&self) -> rados_t {
        self.raw
    }

    /// Whether this process is a fork of the one that made the handle.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    pub(crate) fn config(&self, option: &str) -> Result<String, Errno> {
        let option = c_string(option)?;
        grow_text(256, |buffer, size| {
            // SAFETY: the buffer has `size` bytes, and the option ends with a NUL.
            unsafe { ceph_sys::rados_conf_get(self.raw, option.as_ptr(), buffer, size) }
        })
    }

    fn set(&self, option: &str, value: &str) -> Result<(), Errno> {
        let option = c_string(option)?;
        // The value may be a key: its copy is wiped.
        let value = Zeroizing::new([value.as_bytes(), b"\0"].concat());
        let value = CStr::from_bytes_with_nul(&value).map_err(|_| Errno::INVALID)?;
        // SAFETY: two NUL-terminated strings that the call does not keep.
        check(unsafe { ceph_sys::rados_conf_set(self.raw, option.as_ptr(), value.as_ptr()) }).map(drop)
    }

    /// The text of the cluster's fsid, a UUID.
    pub(crate) fn fsid(&self) -> Result<[u8; 36], Errno> {
        let mut buffer = [0; 37];
        // SAFETY: the buffer has that many bytes, of which the last is for a NUL.
        check(unsafe { ceph_sys::rados_cluster_fsid(self.raw, buffer.as_mut_ptr().cast(), buffer.len()) })?;
        let [text @ .., _] = buffer;
        Ok(text)
    }

    pub(crate) fn instance_id(&self) -> u64 {
        // SAFETY: a connected handle.
        unsafe { ceph_sys::rados_get_instance_id(self.raw) }
    }

    /// This client's own addresses, comma-separated.
    pub(crate) fn addresses(&self) -> Result<String, Errno> {
        let mut addresses: *mut c_char = ptr::null_mut();
        // SAFETY: a connected handle; the string that the call sets is ours.
        check(unsafe { ceph_sys::rados_getaddrs(self.raw, &mut addresses) })?;
        // SAFETY: set by the call: null or NUL-terminated.
        let copy = unsafe { text(addresses) };
        // SAFETY: the call made it with `strdup`, and `rados_buffer_free` is `free`.
        unsafe { ceph_sys::rados_buffer_free(addresses) };
        Ok(copy)
    }

    /// Whether what only reads the map of the OSDs returns without waiting for the monitors.
    pub(crate) fn has_map(&self) -> bool {
        self.has_map.load(Ordering::Relaxed)
    }

    /// The names of all pools. It waits for the first map of the OSDs, and for nothing once it is there
    /// (`RadosClient::wait_for_osdmap`).
    pub(crate) fn pool_names(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let bytes = grow::<u8, _>(512, |buffer, size| {
            // SAFETY: the buffer has `size` bytes.
            let needed = unsafe { ceph_sys::rados_pool_list(self.raw, buffer.as_mut_ptr().cast(), buffer.len()) };
            // It answers with the number of bytes that it needs, also when they were too many.
            if let Ok(needed) = usize::try_from(needed) {
                *size = needed;
            }
            needed
        })?;
        self.has_map.store(true, Ordering::Relaxed);
        // Each name ends with a NUL, the list with an empty name.
        Ok(bytes.split(|byte| *byte == 0).take_while(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    pub(crate) fn pool_id(&self, pool: &str) -> Result<i64, Errno> {
        let pool = c_string(pool)?;
        self.with_latest_map(|| {
            // SAFETY: a connected handle and a NUL-terminated name.
            let id = check(unsafe { ceph_sys::rados_pool_lookup(self.raw, pool.as_ptr()) })?;
            self.has_map.store(true, Ordering::Relaxed);
            Ok(id)
        })
    }

    pub(crate) fn pool_name(&self, id: i64) -> Result<String, Errno> {
        self.with_latest_map(|| {
            grow_text(128, |buffer, size| {
                // SAFETY: the buffer has `size` bytes.
                unsafe { ceph_sys::rados_pool_reverse_lookup(self.raw, id, buffer, size) }
            })
        })
    }

    pub(crate) fn wait_for_latest_map(&self) -> Result<(), Errno> {
        // SAFETY: a connected handle.
        check(unsafe { ceph_sys::rados_wait_for_latest_osdmap(self.raw) }).map(drop)
    }

    /// Looks a pool up once more in the latest map before it is called missing: another client may just have made it.
    fn with_latest_map<T>(&self, look_up: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match look_up() {
            Err(Errno::NOT_FOUND) => {
                self.wait_for_latest_map()?;
                look_up()
            }
            found => found,
        }
    }

    pub(crate) fn delete_pool(&self, pool: &str) -> Result<(), Errno> {
        let pool = c_string(pool)?;
        // SAFETY: a connected handle and a NUL-terminated name.
        check(unsafe { ceph_sys::rados_pool_delete(self.raw, pool.as_ptr()) }).map(drop)
    }

    /// Turns librados' own time-out off while a `rados_mgr_command` is under way. It gives up the call, but not the
    /// command: an answer that comes later is written to the stack that the call had (seen with 16.2; the source of 20
    /// is the same).
    fn mgr_command_begins(&self) -> Result<MgrCommand<'_>, Errno> {
        let mut commands = self.mgr_commands.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.under_way == 0 {
            commands.timeout = self.config(MON_TIMEOUT)?;
            self.set(MON_TIMEOUT, "0")?;
        }
        commands.under_way += 1;
        Ok(MgrCommand(self))
    }

    /// Runs a command; the answer comes with its return code, since the text that explains a failure is part of it.
    pub(crate) fn command(&self, to: Daemon, command: &str) -> Result<Answer, (Errno, String)> {
        let nothing_said = |errno| (errno, String::new());
        let command = c_string(command).map_err(nothing_said)?;
        let _mgr_command = match to {
            Daemon::Mgr => Some(self.mgr_command_begins().map_err(nothing_said)?),
            Daemon::Mon | Daemon::Osd(_) => None,
        };
        let commands = &mut [command.as_ptr()];
        let (mut out, mut out_length): (*mut c_char, usize) = (ptr::null_mut(), 0);
        let (mut status, mut status_length): (*mut c_char, usize) = (ptr::null_mut(), 0);
        let commands = commands.as_mut_ptr();
        let (o, ol, s, sl) = (&mut out, &mut out_length, &mut status, &mut status_length);
        // SAFETY: a connected handle; one command, NUL-terminated, and no input; the four results are set
        // by the call, and the two buffers are ours to free.
        let code: c_int = unsafe {
            match to {
                Daemon::Mon => ceph_sys::rados_mon_command(self.raw, commands, 1, ptr::null(), 0, o, ol, s, sl),
                Daemon::Mgr => ceph_sys::rados_mgr_command(self.raw, commands, 1, ptr::null(), 0, o, ol, s, sl),
                Daemon::Osd(id) => ceph_sys::rados_osd_command(self.raw, id, commands, 1, ptr::null(), 0, o, ol, s, sl),
            }
        };
        // SAFETY: each buffer is null or has that many bytes, and is freed by `rados_buffer_free` once.
        let (output, status) = unsafe { (take(out, out_length), take(status, status_length)) };
        let status = String::from_utf8_lossy(&status).into_owned();
        match check(code) {
            Ok(_) => Ok(Answer { output, status }),
            Err(errno) => Err((errno, status)),
        }
    }
}

/// To whom a command goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Daemon {
    Mon,
    Mgr,
    Osd(i32),
}

/// What a command answered: its output, and the text beside it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Vec<u8>,
    pub(crate) status: String,
}

/// Copies a buffer of librados and frees it.
///
/// # Safety
///
/// `buffer` is null or has `length` bytes, was made by librados for its caller, and is not used afterwards.
pub(super) unsafe fn take(buffer: *mut c_char, length: usize) -> Vec<u8> {
    if buffer.is_null() {
        return Vec::new();
    }
    // SAFETY: not null, so it has `length` bytes by the caller's word.
    let copy = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) }.to_vec();
    // SAFETY: librados made it, and nothing uses it any more.
    unsafe { ceph_sys::rados_buffer_free(buffer) };
    copy
}

impl Drop for RadosHandle {
    fn drop(&mut self) {
        /// A raw handle on its way to the thread that shuts it down.
        struct Last(rados_t);
        // SAFETY: nobody else has it any more, and `rados_shutdown` may be called from any thread.
        unsafe impl Send for Last {}

        let keep_alive = self.keep_alive.take();
        if self.is_inherited() {
            // The parent still uses what a guard guards.
            std::mem::forget(keep_alive);
            return;
        }
        let last = Last(self.raw);
        callback::outside_callbacks(move || {
            let last = last;
            match keep_alive {
                Some(guard) => drop(guard),
                // SAFETY: the only call for this handle: `self` owned it, and everything below it is gone.
                None => unsafe { ceph_sys::rados_shutdown(last.0) },
            }
        });
    }
}

impl fmt::Debug for RadosHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RadosHandle").field(&self.raw).finish()
    }
}

/// Whether C, which splits a list of configuration files at `,` and `;` and puts in variables for `$`, would read this
/// very path.
pub(crate) fn is_one_path(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.is_empty() && !path.contains([',', ';', '$', '\0']))
}
