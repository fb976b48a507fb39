use std::collections::BTreeMap;

use serde_json::Value;

/// The names of the key attributes of each table, the partition key first.
#[derive(Debug, Default)]
pub(super) struct TableKeys(BTreeMap<String, Vec<String>>);

/// The use of an item, or of a whole partition, by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ItemUse {
    /// The table or index, and the value of the partition key.
    pub(super) partition: String,
    /// The partition and the value of the sort key.
    pub(super) item: String,
}

impl TableKeys {
    /// Notes the keys of a table that a request creates.
    pub(super) fn note(&mut self, creation: &Value) {
        let key = creation["KeySchema"].as_array().into_iter().flatten();
        let names = key.filter_map(|part| part["AttributeName"].as_str().map(str::to_owned)).collect();
        self.0.insert(text(&creation["TableName"]), names);
    }

    /// The items that a request uses, in the order of the request; empty for a request of whole tables.
    pub(super) fn used(&self, operation: &str, body: &Value) -> Vec<ItemUse> {
        let table = text(&body["TableName"]);
        match operation {
            "GetItem" | "UpdateItem" | "DeleteItem" => vec![self.item(&table, &body["Key"])],
            "PutItem" => vec![self.item(&table, &body["Item"])],
            "Query" => vec![query(&table, body)],
            "TransactWriteItems" => {
                let parts = body["TransactItems"].as_array().into_iter().flatten();
                parts.filter_map(|part| part.as_object()?.values().next()).map(|part| self.part(part)).collect()
            }
            _ => vec![],
        }
    }

    /// The use of one item, given an object with its key.
    pub(super) fn item(&self, table: &str, key: &Value) -> ItemUse {
        let mut names = self.0.get(table).into_iter().flatten();
        let partition = format!("{table} {}", names.next().map(|name| &key[name]).unwrap_or(&Value::Null));
        let item = format!("{partition} {}", names.next().map(|name| &key[name]).unwrap_or(&Value::Null));
        ItemUse { partition, item }
    }

    /// The use of an item by an entry of a batch.
    pub(super) fn entry(&self, table: &str, entry: &Value) -> ItemUse {
        let written = [&entry["PutRequest"]["Item"], &entry["DeleteRequest"]["Key"]];
        let key = written.into_iter().find(|key| key.is_object()).unwrap_or(entry);
        self.item(table, key)
    }

    fn part(&self, part: &Value) -> ItemUse {
        let key = if part["Item"].is_object() { &part["Item"] } else { &part["Key"] };
        self.item(&text(&part["TableName"]), key)
    }
}

/// The partition that a query reads. Its key is the first value that the condition names.
fn query(table: &str, body: &Value) -> ItemUse {
    let condition = text(&body["KeyConditionExpression"]);
    let name = condition.split_whitespace().find(|word| word.starts_with(':')).unwrap_or_default();
    let index = body["IndexName"].as_str().map(|index| format!("/{index}")).unwrap_or_default();
    let partition = format!("{table}{index} {}", body["ExpressionAttributeValues"][name]);
    ItemUse { item: partition.clone(), partition }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
