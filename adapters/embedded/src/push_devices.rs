use async_trait::async_trait;
use domain::limits::PUSH_DEVICES_MAX;
use domain::{DeviceId, PushDevice, UserId};
use ports::{PushDeviceStore, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::Table;

#[async_trait]
impl PushDeviceStore for EmbeddedStore {
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let key = keys::device(device.user_id, device.device_id);
            let mut others = tx.keys(Table::PushDevices, &keys::user(device.user_id))?;
            others.remove(&key[..]);
            if others.len() >= PUSH_DEVICES_MAX {
                return Ok(false);
            }
            tx.put(Table::PushDevices, &key, &device);
            Ok(true)
        })
        .await
    }

    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let key = keys::device(user_id, device_id);
            let registered = tx.get_bytes(Table::PushDevices, &key)?.is_some();
            if registered {
                tx.delete(Table::PushDevices, &key);
            }
            Ok(registered)
        })
        .await
    }

    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError> {
        let user_ids = user_ids.to_vec();
        self.read(move |tables| {
            let view = tables.view();
            let rows = user_ids.iter().flat_map(|user_id| view.prefix(Table::PushDevices, &keys::user(*user_id)));
            rows.map(|row| PushDevice::decode(&row?.1).map_err(|error| unreadable(Table::PushDevices, error))).collect()
        })
        .await
    }
}
