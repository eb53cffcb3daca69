//! Which clients are daemons that mirror images: by the service map, in which they register.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Result;
use crate::rados::Cluster;

const SERVICE: &str = "rbd-mirror";

/// The clients that mirror daemons of this cluster are. Those of another site that mirror from here are in that site's
/// map, and not known here.
pub(super) fn daemons(cluster: &Cluster) -> Result<HashSet<u64>> {
    let services: Services = cluster.mon_command(&json!({"prefix": "service dump", "format": "json"}))?.json()?;
    let Some(mirroring) = services.services.get(SERVICE) else { return Ok(HashSet::new()) };
    let status: Value = cluster.mon_command(&json!({"prefix": "service status", "format": "json"}))?.json()?;
    Ok(clients(mirroring, &status))
}

#[derive(Deserialize)]
struct Services {
    services: BTreeMap<String, Value>,
}

/// A daemon has a client for itself, and one for each pool, which is told in its status: that one opens the images.
fn clients(mirroring: &Value, status: &Value) -> HashSet<u64> {
    let daemons = mirroring["daemons"].as_object().into_iter().flatten();
    // Among them is a text, `summary`.
    let own = daemons.filter_map(|(_, daemon)| daemon["gid"].as_u64());
    let statuses = status[SERVICE].as_object().into_iter().flatten();
    let pools =
        statuses.filter_map(|(_, daemon)| serde_json::from_str::<Value>(daemon["status"]["json"].as_str()?).ok());
    let instances = pools.flat_map(|pools| {
        let pools = pools.as_object().into_iter().flatten();
        let instances = pools.filter_map(|(_, pool)| pool["instance_id"].as_str()?.parse().ok());
        instances.collect::<Vec<u64>>()
    });
    own.chain(instances).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_its_own_client_and_one_for_each_pool() {
        let mirroring = json!({"daemons": {
            "summary": "",
            "4135": {"start_epoch": 7, "gid": 4135, "addr": "192.0.2.7:0/1", "metadata": {"id": "a"}},
        }});
        let pools = r#"{"1":{"name":"kube","callouts":{},"instance_id":"4141","leader":true},"2":{"instance_id":"x"}}"#;
        let status = json!({"rbd-mirror": {
            "4135": {"status_stamp": "", "last_beacon": "", "status": {"json": pools}},
            "4136": {"status": {}},
        }});
        assert_eq!(clients(&mirroring, &status), HashSet::from([4135, 4141]));
        assert_eq!(clients(&json!({}), &json!([])), HashSet::new());
    }
}
