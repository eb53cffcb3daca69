fn main() {
    let error = rbd::Cluster::builder().connect().unwrap_err();
    match error.kind() {
        rbd::ErrorKind::NotFound => println!("not found"),
        rbd::ErrorKind::AlreadyExists => println!("exists"),
        rbd::ErrorKind::PermissionDenied => println!("denied"),
    }
}
