use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;

fn main() -> rbd::Result<()> {
    let image = rbd::Cluster::builder().connect()?.pool("kube")?.open("pvc-1")?;
    let done = Rc::new(Cell::new(0));
    image.rebuild_object_map(|objects, _| {
        done.set(objects);
        ControlFlow::Continue(())
    })
}
