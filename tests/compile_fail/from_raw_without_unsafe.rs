fn main() {
    let cluster = rbd::Cluster::from_raw(std::ptr::null_mut(), ());
    drop(cluster);
}
