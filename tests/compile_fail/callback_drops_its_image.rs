use std::ops::ControlFlow;

fn main() -> rbd::Result<()> {
    let image = rbd::Cluster::builder().connect()?.pool("kube")?.open("pvc-1")?;
    let mut image = Some(image);
    image.as_ref().unwrap().rebuild_object_map(|_, _| {
        image.take();
        ControlFlow::Continue(())
    })
}
