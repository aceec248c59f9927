//! Each store keeps the contract of stores.

use std::rc::Rc;

use stonecast_cluster::contract::World;

use crate::support::{Cluster, RealWorld, missing};

fn in_files(_: &str) -> Result<Rc<dyn World>, String> {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file:{}", folder.path().join("cluster").display());
    std::fs::create_dir(folder.path().join("cluster")).unwrap();
    Ok(RealWorld::of(address, folder))
}

fn in_etcd(name: &str) -> Result<Rc<dyn World>, String> {
    if let Some(reason) = missing() {
        return Err(reason.to_owned());
    }
    let cluster = Cluster::start(1);
    Ok(RealWorld::of(cluster.address(name), cluster))
}

mod files {
    stonecast_cluster::store_contract_tests!("files", super::in_files);
}

mod etcd {
    stonecast_cluster::store_contract_tests!("etcd", super::in_etcd);
}
