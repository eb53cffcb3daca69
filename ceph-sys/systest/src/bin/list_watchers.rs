//! Lists the watchers of objects through the C++ shim: `list_watchers CONF POOL OBJECT…`. One line with the code, then
//! one for each watcher. `tests/list_watchers.rs` runs it on several builds of librados.

use std::ffi::{CStr, CString, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::{env, ptr};

fn main() {
    let arguments = env::args_os().skip(1).map(|argument| CString::new(argument.into_vec()).expect("no NUL in argv"));
    let arguments: Vec<CString> = arguments.collect();
    let [conf, pool, objects @ ..] = &arguments[..] else { panic!("usage: list_watchers CONF POOL OBJECT…") };

    let (mut cluster, mut io) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the calls are in the order that librados asks for, with C strings, and each handle is made before it is
    // used.
    unsafe {
        succeed("rados_create", ceph_sys::rados_create(&mut cluster, ptr::null()));
        succeed("rados_conf_read_file", ceph_sys::rados_conf_read_file(cluster, conf.as_ptr()));
        succeed("rados_connect", ceph_sys::rados_connect(cluster));
        succeed("rados_ioctx_create", ceph_sys::rados_ioctx_create(cluster, pool.as_ptr(), &mut io));
    }
    for object in objects {
        list(io, object);
    }
    // SAFETY: neither handle is used again.
    unsafe {
        ceph_sys::rados_ioctx_destroy(io);
        ceph_sys::rados_shutdown(cluster);
    }
}

fn succeed(call: &str, code: c_int) {
    assert!(code >= 0, "{call}: {code}");
}

fn list(io: ceph_sys::rados_ioctx_t, object: &CStr) {
    let (mut completion, mut watchers) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a completion without callbacks is made and used once, with `io` a context and `object` a C string; it
    // has completed before its result is read, and is not used after its release.
    let code = unsafe {
        succeed("create", ceph_sys::rados_aio_create_completion2(ptr::null_mut(), None, &mut completion));
        let mut code = ceph_sys::ceph_sys_aio_list_watchers(io, object.as_ptr(), completion, &mut watchers);
        if code == 0 {
            ceph_sys::rados_aio_wait_for_complete(completion);
            code = ceph_sys::rados_aio_get_return_value(completion);
        }
        ceph_sys::rados_aio_release(completion);
        code
    };
    let object = object.to_string_lossy();
    println!("{object} code={code}");
    let mut watcher = MaybeUninit::uninit();
    // SAFETY: null only where the call failed; else its completion has completed, and there is a place to write to.
    while !watchers.is_null() && unsafe { ceph_sys::ceph_sys_watchers_pop(watchers, watcher.as_mut_ptr()) } {
        // SAFETY: the call has written it.
        let watcher = unsafe { watcher.assume_init() };
        // SAFETY: librados ends the address with a NUL.
        let address = unsafe { CStr::from_ptr(watcher.addr.as_ptr()) }.to_string_lossy();
        println!(
            "{object} watcher={address} client.{} cookie={} timeout={}",
            watcher.watcher_id, watcher.cookie, watcher.timeout_seconds
        );
    }
    // SAFETY: the call gave it, or left it null; it is not used again.
    unsafe { ceph_sys::ceph_sys_watchers_free(watchers) };
}
