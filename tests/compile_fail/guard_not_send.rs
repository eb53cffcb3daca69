fn main() {
    let guard = std::rc::Rc::new(());
    // SAFETY: this does not compile.
    drop(unsafe { rbd::Cluster::from_raw(std::ptr::null_mut(), guard) });
}
