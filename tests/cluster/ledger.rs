//! A test in a process whose calls of librados and librbd are kept account of (`ledger.c`): each handle is ended once,
//! after those made from it, and never used after that, or the process aborts.

use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::process::Command;

use tempfile::TempDir;

use super::child;
use super::support::stdout;

/// [`child::run`] with the ledger.
pub fn run<B: FnOnce()>(body: B) {
    // There until the process has ended.
    let mut library = None;
    child::run(
        |command| {
            let dir = library.insert(TempDir::new().unwrap());
            let object = dir.path().join("ledger.so");
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/ledger.c");
            stdout(Command::new("cc").args(["-shared", "-fPIC", "-pthread", source, "-o"]).arg(&object));
            command.env("LD_PRELOAD", object);
        },
        body,
    );
}

/// A function of the ledger.
fn function(name: &CStr) -> *mut std::ffi::c_void {
    // SAFETY: it looks a symbol up by its NUL-terminated name.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!function.is_null(), "no ledger in this process");
    function
}

/// How often a C function was called.
pub fn count(call: &str) -> i64 {
    let call = CString::new(call).unwrap();
    // SAFETY: this is its type in `ledger.c`, and the name is NUL-terminated.
    unsafe {
        let count: unsafe extern "C" fn(*const c_char) -> c_long = std::mem::transmute(function(c"ledger_count"));
        count(call.as_ptr())
    }
}

/// The name of the thread that called a C function the last time.
pub fn thread(call: &str) -> String {
    let call = CString::new(call).unwrap();
    // SAFETY: as above; the answer is NUL-terminated and stays.
    unsafe {
        let thread: unsafe extern "C" fn(*const c_char) -> *const c_char =
            std::mem::transmute(function(c"ledger_thread"));
        CStr::from_ptr(thread(call.as_ptr())).to_str().unwrap().to_owned()
    }
}

/// Makes a C function fail from now on; with 0 it works again.
pub fn fail(call: &str, errno: i32) {
    let call = CString::new(call).unwrap();
    // SAFETY: as above.
    unsafe {
        let fail: unsafe extern "C" fn(*const c_char, c_int) = std::mem::transmute(function(c"ledger_fail"));
        fail(call.as_ptr(), errno);
    }
}

/// The handles of the libraries that have not been ended: connections, I/O contexts, images.
pub fn open_handles() -> [i64; 3] {
    [
        count("rados_create2") - count("rados_shutdown"),
        count("rados_ioctx_create2") - count("rados_ioctx_destroy"),
        count("rbd_open") + count("rbd_open_read_only") - count("rbd_close"),
    ]
}
