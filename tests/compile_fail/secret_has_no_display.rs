fn main() {
    println!("{}", rbd::Secret::new("AQB…"));
}
