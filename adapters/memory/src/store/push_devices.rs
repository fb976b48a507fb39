use std::ops::RangeInclusive;

use async_trait::async_trait;
use domain::limits::PUSH_DEVICES_MAX;
use domain::{DeviceId, PushDevice, UserId};
use ports::{PushDeviceStore, StoreError};

use super::MemoryStore;

#[async_trait]
impl PushDeviceStore for MemoryStore {
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| {
            let key = (device.user_id, device.device_id);
            let others = state.push_devices.range(all_of(device.user_id)).filter(|(other, _)| **other != key).count();
            if others >= PUSH_DEVICES_MAX {
                return false;
            }
            state.push_devices.insert(key, device);
            true
        }))
    }

    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| state.push_devices.remove(&(user_id, device_id)).is_some()))
    }

    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError> {
        Ok(self.transaction(|state| {
            let devices = user_ids.iter().flat_map(|user_id| state.push_devices.range(all_of(*user_id)));
            devices.map(|(_, device)| device.clone()).collect()
        }))
    }
}

fn all_of(user_id: UserId) -> RangeInclusive<(UserId, DeviceId)> {
    (user_id, DeviceId::from_bytes([0; 16]))..=(user_id, DeviceId::from_bytes([0xff; 16]))
}
