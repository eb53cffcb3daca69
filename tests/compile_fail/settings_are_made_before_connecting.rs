use std::time::Duration;

fn main() -> rbd::Result<()> {
    let cluster = rbd::Cluster::builder().connect()?;
    cluster.connect_deadline(Duration::from_secs(1));
    Ok(())
}
