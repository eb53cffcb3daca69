fn main() -> rbd::Result<()> {
    let cluster = rbd::Cluster::builder().connect()?;
    cluster.disconnect()?;
    println!("{}", cluster.fsid()?);
    Ok(())
}
