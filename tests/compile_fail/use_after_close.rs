fn main() -> rbd::Result<()> {
    let image = rbd::Cluster::builder().connect()?.pool("kube")?.open("pvc-1")?;
    image.close()?;
    image.write(0, b"data")
}
