//! The contract of the fabric, between devices of the same user and between devices that treat each other as strangers.

mod same_user {
    use crate::world::ShmWorld;
    use stonecast_fabric_shm::ShmOptions;

    stonecast_fabric::contract_tests!(ShmWorld::new(ShmOptions::default()));
}

mod strangers {
    use crate::world::ShmWorld;
    use stonecast_fabric_shm::ShmOptions;

    stonecast_fabric::contract_tests!(ShmWorld::new(ShmOptions {
        copying_only: true,
        ..ShmOptions::default()
    }));
}
