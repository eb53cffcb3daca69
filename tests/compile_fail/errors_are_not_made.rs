fn main() {
    let error = rbd::Error::from_errno("open image", 2).with_object("kube/pvc-1");
    println!("{error}");
}
