use async_trait::async_trait;
use domain::limits::PUSH_DEVICES_MAX;
use domain::{DeviceId, PushDevice, UserId};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::{PushDeviceStore, StoreError};

use crate::DynamoStore;
use crate::db::{self, CONCURRENCY_MAX, PartitionQuery};
use crate::devices::{PROVIDER, device_key, forget, read_registration, register, session_of, unregister};
use crate::item::{ItemKey, ItemReader, number};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// Sort key of the item that represents all devices of a user. Every registration increments its version, so that
/// concurrent registrations do not miss each other.
const ALL_DEVICES: &str = "#";

#[async_trait]
impl PushDeviceStore for DynamoStore {
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError> {
        let device = &device;
        let all = &ItemKey::of(Table::PushDevices, device.user_id, ALL_DEVICES);
        db::undisturbed(|| async move {
            let version = match self.db().get(all).await? {
                Some(item) => Some(ItemReader { table: Table::PushDevices, item: &item }.number("version")?),
                None => None,
            };
            let registered = self.registered(device.user_id).await?;
            let others = registered.iter().filter(|other| other.device_id != device.device_id).count();
            if others >= PUSH_DEVICES_MAX {
                return Ok(Some(false));
            }
            let writes = || {
                let next = AttributeChange::Set("version", Some(number(version.map_or(1, |version| version + 1))));
                let counted = Write::update(all.clone(), vec![next]);
                vec![counted.when(Condition::is("version", version.map(number))), register(device)]
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(true))
        })
        .await
    }

    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError> {
        let key = &device_key(user_id, device_id);
        db::undisturbed(|| async move {
            let Some(item) = self.db().get(key).await?.filter(|item| item.contains_key(PROVIDER)) else {
                return Ok(Some(false));
            };
            let signed_in = session_of(&item)?.is_some();
            let writes = || vec![if signed_in { unregister(key.clone()) } else { forget(key.clone()) }];
            Ok(self.db().transact(writes).await?.is_committed().then_some(true))
        })
        .await
    }

    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError> {
        let devices = user_ids.iter().copied().map(|user_id| self.registered(user_id));
        let devices: Vec<Vec<PushDevice>> = stream::iter(devices).buffered(CONCURRENCY_MAX).try_collect().await?;
        Ok(devices.concat())
    }
}

impl DynamoStore {
    async fn registered(&self, user_id: UserId) -> Result<Vec<PushDevice>, StoreError> {
        let items = self.db().query(&PartitionQuery::partition(Table::PushDevices, user_id), usize::MAX).await?;
        let now = self.clock().now();
        items.iter().filter_map(|item| read_registration(item, now).transpose()).collect()
    }
}
