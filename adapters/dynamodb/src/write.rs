//! One part of a transaction, and its DynamoDB expressions.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem, Update};

use crate::item::{DynamoItem, ItemKey, number};
use crate::schema::Table;

/// The action of a transaction on one item. A transaction commits if all conditions of all its parts hold.
pub(crate) struct Write {
    key: ItemKey,
    action: WriteAction,
    conditions: Vec<Condition>,
}

enum WriteAction {
    Put(DynamoItem),
    Update(Vec<AttributeChange>),
    Delete,
    Check,
}

/// The change of one attribute in an update.
pub(crate) enum AttributeChange {
    /// Sets the value, or removes the attribute.
    Set(&'static str, Option<AttributeValue>),
    /// Sets the value unless the attribute exists.
    SetIfAbsent(&'static str, AttributeValue),
    /// Increments the value by one.
    Increment(&'static str),
}

/// A condition on an item.
pub(crate) enum Condition {
    /// The item does not exist, or lacks the attribute.
    Absent(&'static str),
    /// The item has the attribute.
    Exists(&'static str),
    /// The attribute equals the value.
    Equals(&'static str, AttributeValue),
    /// The attribute is less than the value.
    Below(&'static str, AttributeValue),
    /// The attribute is greater than the value.
    Above(&'static str, AttributeValue),
    /// The item does not exist, or has the attribute with at most this value.
    AbsentOrAtMost(&'static str, AttributeValue),
    /// The item lacks the attribute, or has it with a lesser value.
    UnsetOrBelow(&'static str, AttributeValue),
}

impl Condition {
    /// The attribute equals the value, or is absent if there is none.
    pub(crate) fn is(name: &'static str, value: Option<AttributeValue>) -> Self {
        value.map_or(Self::Absent(name), |value| Self::Equals(name, value))
    }
}

impl Write {
    /// Writes a new item; fails if it exists.
    pub(crate) fn create(key: ItemKey, item: DynamoItem) -> Self {
        Self::put(key, item).on_condition(Condition::Absent)
    }

    /// Writes an item, replacing any existing one.
    pub(crate) fn put(key: ItemKey, mut item: DynamoItem) -> Self {
        item.extend(key.attributes());
        Self { key, action: WriteAction::Put(item), conditions: vec![] }
    }

    /// Changes attributes of an item.
    pub(crate) fn update(key: ItemKey, changes: Vec<AttributeChange>) -> Self {
        Self { key, action: WriteAction::Update(changes), conditions: vec![] }
    }

    /// Deletes an item.
    pub(crate) fn delete(key: ItemKey) -> Self {
        Self { key, action: WriteAction::Delete, conditions: vec![] }
    }

    /// Requires that an item exists, without changing it.
    pub(crate) fn check(key: ItemKey) -> Self {
        Self { key, action: WriteAction::Check, conditions: vec![] }.if_there()
    }

    /// Requires a condition on an item, which may hold without the item.
    pub(crate) fn require(key: ItemKey, condition: Condition) -> Self {
        Self { key, action: WriteAction::Check, conditions: vec![condition] }
    }

    /// Requires that an item does not exist.
    pub(crate) fn check_absent(key: ItemKey) -> Self {
        Self { key, action: WriteAction::Check, conditions: vec![] }.on_condition(Condition::Absent)
    }

    /// Requires that the item exists.
    pub(crate) fn if_there(self) -> Self {
        self.on_condition(Condition::Exists)
    }

    /// Adds a condition on the item.
    pub(crate) fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// A condition on the partition key, which every item of the table has.
    fn on_condition(self, condition: impl FnOnce(&'static str) -> Condition) -> Self {
        let partition_key = self.key.table.definition().partition_key;
        self.when(condition(partition_key))
    }

    /// The part in the SDK's form; `name` maps tables to their names.
    pub(crate) fn into_part(self, name: impl FnOnce(Table) -> String) -> TransactWriteItem {
        let Self { key, action, conditions } = self;
        let (table, partition_key) = (name(key.table), key.table.definition().partition_key);
        let mut expression = Expression::default();
        let update = match &action {
            WriteAction::Update(changes) => expression.update(changes),
            WriteAction::Put(_) | WriteAction::Delete | WriteAction::Check => String::new(),
        };
        let condition = expression.conditions(conditions, partition_key);
        let (names, values) = expression.into_parts();
        let part = TransactWriteItem::builder();
        const COMPLETE: &str = "table, key and expressions are given";
        match action {
            WriteAction::Put(item) => part.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(item))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(COMPLETE),
            ),
            WriteAction::Update(_) => part.update(
                Update::builder()
                    .table_name(table)
                    .set_key(Some(key.attributes()))
                    .update_expression(update)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(COMPLETE),
            ),
            WriteAction::Delete => part.delete(
                Delete::builder()
                    .table_name(table)
                    .set_key(Some(key.attributes()))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(COMPLETE),
            ),
            WriteAction::Check => part.condition_check(
                ConditionCheck::builder()
                    .table_name(table)
                    .set_key(Some(key.attributes()))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(COMPLETE),
            ),
        }
        .build()
    }
}

/// The names and values that expressions refer to. Attributes always get a placeholder, because many of our names are
/// reserved words.
#[derive(Default)]
struct Expression {
    names: HashMap<String, String>,
    values: DynamoItem,
}

impl Expression {
    fn name(&mut self, attribute: &str) -> String {
        let name = format!("#{attribute}");
        self.names.insert(name.clone(), attribute.to_owned());
        name
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let name = format!(":v{}", self.values.len());
        self.values.insert(name.clone(), value);
        name
    }

    fn update(&mut self, changes: &[AttributeChange]) -> String {
        let (mut set, mut remove) = (vec![], vec![]);
        for change in changes {
            match change {
                AttributeChange::Set(attribute, Some(value)) => {
                    set.push(format!("{} = {}", self.name(attribute), self.value(value.clone())));
                }
                AttributeChange::Set(attribute, None) => remove.push(self.name(attribute)),
                AttributeChange::SetIfAbsent(attribute, value) => {
                    let (name, value) = (self.name(attribute), self.value(value.clone()));
                    set.push(format!("{name} = if_not_exists({name}, {value})"));
                }
                AttributeChange::Increment(attribute) => {
                    let (name, one) = (self.name(attribute), self.value(number(1)));
                    set.push(format!("{name} = {name} + {one}"));
                }
            }
        }
        let clause = |word: &str, parts: Vec<String>| {
            if parts.is_empty() { String::new() } else { format!("{word} {} ", parts.join(", ")) }
        };
        clause("SET", set) + &clause("REMOVE", remove)
    }

    fn conditions(&mut self, conditions: Vec<Condition>, partition_key: &str) -> Option<String> {
        let mut said = vec![];
        for condition in conditions {
            said.push(match condition {
                Condition::Absent(attribute) => format!("attribute_not_exists({})", self.name(attribute)),
                Condition::Exists(attribute) => format!("attribute_exists({})", self.name(attribute)),
                Condition::Equals(attribute, value) => format!("{} = {}", self.name(attribute), self.value(value)),
                Condition::Below(attribute, value) => format!("{} < {}", self.name(attribute), self.value(value)),
                Condition::Above(attribute, value) => format!("{} > {}", self.name(attribute), self.value(value)),
                Condition::AbsentOrAtMost(attribute, value) => {
                    let (key, name, value) = (self.name(partition_key), self.name(attribute), self.value(value));
                    format!("(attribute_not_exists({key}) OR {name} <= {value})")
                }
                Condition::UnsetOrBelow(attribute, value) => {
                    let (name, value) = (self.name(attribute), self.value(value));
                    format!("(attribute_not_exists({name}) OR {name} < {value})")
                }
            });
        }
        (!said.is_empty()).then(|| said.join(" AND "))
    }

    /// DynamoDB refuses empty maps.
    fn into_parts(self) -> (Option<HashMap<String, String>>, Option<DynamoItem>) {
        (Some(self.names).filter(|names| !names.is_empty()), Some(self.values).filter(|values| !values.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::text;

    #[test]
    fn an_update_names_set_and_removed_attributes_and_its_condition() {
        let key = ItemKey::one(Table::ChatCounters, "chat_1");
        let changes = vec![
            AttributeChange::Set("sequence_counter", Some(number(8))),
            AttributeChange::Set("preview", None),
            AttributeChange::SetIfAbsent("dirty_since", text("now")),
        ];
        let write = Write::update(key, changes)
            .when(Condition::Equals("sequence_counter", number(7)))
            .when(Condition::is("message_ttl", None));
        let update = write.into_part(|table| format!("test_{}", table.name())).update.unwrap();
        assert_eq!(update.table_name, "test_chat_counters");
        assert_eq!(
            update.update_expression,
            "SET #sequence_counter = :v0, #dirty_since = if_not_exists(#dirty_since, :v1) REMOVE #preview "
        );
        let condition = update.condition_expression.unwrap();
        assert_eq!(condition, "#sequence_counter = :v2 AND attribute_not_exists(#message_ttl)");
        assert_eq!(update.expression_attribute_values.unwrap()[":v2"], number(7));
    }

    #[test]
    fn a_new_item_has_its_key_and_must_not_be_there() {
        let write = Write::create(ItemKey::of(Table::ChatMemberships, "chat_1", "user_1"), DynamoItem::new());
        let put = write.into_part(|table| table.name().to_owned()).put.unwrap();
        assert_eq!((&put.item["chat_id"], &put.item["user_id"]), (&text("chat_1"), &text("user_1")));
        assert_eq!(put.condition_expression.unwrap(), "attribute_not_exists(#chat_id)");
        assert_eq!(put.expression_attribute_values, None);
    }
}
