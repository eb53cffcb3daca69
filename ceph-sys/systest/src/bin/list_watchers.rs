//! Lists the watchers of objects through the C++ shim: `list_watchers CONF POOL OBJECT…`. One line for each watcher, or
//! one with the code if there is none. `tests/list_watchers.rs` runs it on several builds of librados.

use std::ffi::{CStr, CString, c_int};
use std::os::unix::ffi::OsStringExt;
use std::{env, ptr, slice};

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
    let (mut watchers, mut count) = (ptr::null_mut(), 0);
    // SAFETY: `io` is a context, `object` a C string, and the rest is written.
    let code = unsafe { ceph_sys::ceph_sys_list_watchers(io, object.as_ptr(), &mut watchers, &mut count) };
    let object = object.to_string_lossy();
    if code < 0 || count == 0 {
        println!("{object} code={code} count={count}");
        return;
    }
    // SAFETY: the call succeeded and gave `count` of them.
    for watcher in unsafe { slice::from_raw_parts(watchers, count) } {
        // SAFETY: librados ends the address with a NUL.
        let address = unsafe { CStr::from_ptr(watcher.addr.as_ptr()) }.to_string_lossy();
        println!(
            "{object} watcher={address} client.{} cookie={} timeout={}",
            watcher.watcher_id, watcher.cookie, watcher.timeout_seconds
        );
    }
    // SAFETY: the call gave it, and it is not used again.
    unsafe { ceph_sys::ceph_sys_free_watchers(watchers) };
}
