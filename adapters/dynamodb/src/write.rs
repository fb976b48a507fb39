//! One part of a transaction, and how it is said to DynamoDB.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem, Update};

use crate::item::{Item, Key, number};
use crate::schema::Table;

/// What a transaction does to one item. It is done if all conditions of all its parts hold.
pub(crate) struct Write {
    key: Key,
    action: Action,
    conditions: Vec<Condition>,
}

enum Action {
    Put(Item),
    Update(Vec<Change>),
    Delete,
    Check,
}

/// What an update does to one attribute.
pub(crate) enum Change {
    /// Gives it a value, or takes it away.
    Set(&'static str, Option<AttributeValue>),
    /// Gives it a value unless it has one.
    SetIfAbsent(&'static str, AttributeValue),
    /// Makes it greater by one.
    Increment(&'static str),
}

/// What must hold of an item.
pub(crate) enum Condition {
    /// It is not there, or has no such attribute.
    Absent(&'static str),
    /// It has such an attribute.
    Exists(&'static str),
    /// Its attribute has this value.
    Equals(&'static str, AttributeValue),
    /// Its attribute is less than this.
    Below(&'static str, AttributeValue),
    /// Its attribute is greater than this.
    Above(&'static str, AttributeValue),
    /// It is not there, or has the first attribute, no greater than this.
    AbsentOrAtMost(&'static str, AttributeValue),
    /// It has no such attribute, or a lesser one than this.
    UnsetOrBelow(&'static str, AttributeValue),
}

impl Condition {
    /// The attribute has this value, or is absent if there is none.
    pub(crate) fn is(name: &'static str, value: Option<AttributeValue>) -> Self {
        value.map_or(Self::Absent(name), |value| Self::Equals(name, value))
    }
}

impl Write {
    /// Writes an item that is not there.
    pub(crate) fn create(key: Key, item: Item) -> Self {
        Self::put(key, item).on_condition(Condition::Absent)
    }

    /// Writes an item in the place of what is there.
    pub(crate) fn put(key: Key, mut item: Item) -> Self {
        item.extend(key.attributes());
        Self { key, action: Action::Put(item), conditions: vec![] }
    }

    /// Changes attributes of an item.
    pub(crate) fn update(key: Key, changes: Vec<Change>) -> Self {
        Self { key, action: Action::Update(changes), conditions: vec![] }
    }

    /// Deletes an item.
    pub(crate) fn delete(key: Key) -> Self {
        Self { key, action: Action::Delete, conditions: vec![] }
    }

    /// Does nothing to an item that is there.
    pub(crate) fn check(key: Key) -> Self {
        Self { key, action: Action::Check, conditions: vec![] }.if_there()
    }

    /// Does nothing to an item that is not there.
    pub(crate) fn check_absent(key: Key) -> Self {
        Self { key, action: Action::Check, conditions: vec![] }.on_condition(Condition::Absent)
    }

    /// The item must be there.
    pub(crate) fn if_there(self) -> Self {
        self.on_condition(Condition::Exists)
    }

    /// One more thing must hold of the item.
    pub(crate) fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// A condition on the attribute that every item of the table has.
    fn on_condition(self, condition: impl FnOnce(&'static str) -> Condition) -> Self {
        let partition_key = self.key.table.definition().partition_key;
        self.when(condition(partition_key))
    }

    /// The part as the SDK has it; `name` names tables.
    pub(crate) fn into_part(self, name: impl FnOnce(Table) -> String) -> TransactWriteItem {
        let Self { key, action, conditions } = self;
        let (table, partition_key) = (name(key.table), key.table.definition().partition_key);
        let mut expression = Expression::default();
        let update = match &action {
            Action::Update(changes) => expression.update(changes),
            Action::Put(_) | Action::Delete | Action::Check => String::new(),
        };
        let condition = expression.conditions(conditions, partition_key);
        let (names, values) = expression.into_parts();
        let part = TransactWriteItem::builder();
        const COMPLETE: &str = "table, key and expressions are given";
        match action {
            Action::Put(item) => part.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(item))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(COMPLETE),
            ),
            Action::Update(_) => part.update(
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
            Action::Delete => part.delete(
                Delete::builder()
                    .table_name(table)
                    .set_key(Some(key.attributes()))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(COMPLETE),
            ),
            Action::Check => part.condition_check(
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

/// The names and values that expressions speak of. Attributes are always named through it, because many of our words
/// are reserved.
#[derive(Default)]
struct Expression {
    names: HashMap<String, String>,
    values: Item,
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

    fn update(&mut self, changes: &[Change]) -> String {
        let (mut set, mut remove) = (vec![], vec![]);
        for change in changes {
            match change {
                Change::Set(attribute, Some(value)) => {
                    set.push(format!("{} = {}", self.name(attribute), self.value(value.clone())));
                }
                Change::Set(attribute, None) => remove.push(self.name(attribute)),
                Change::SetIfAbsent(attribute, value) => {
                    let (name, value) = (self.name(attribute), self.value(value.clone()));
                    set.push(format!("{name} = if_not_exists({name}, {value})"));
                }
                Change::Increment(attribute) => {
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
    fn into_parts(self) -> (Option<HashMap<String, String>>, Option<Item>) {
        (Some(self.names).filter(|names| !names.is_empty()), Some(self.values).filter(|values| !values.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::text;

    #[test]
    fn an_update_says_what_it_sets_takes_away_and_demands() {
        let key = Key::one(Table::ChatCounters, "chat_1");
        let changes = vec![
            Change::Set("sequence_counter", Some(number(8))),
            Change::Set("preview", None),
            Change::SetIfAbsent("dirty_since", text("now")),
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
        let write = Write::create(Key::of(Table::ChatMemberships, "chat_1", "user_1"), Item::new());
        let put = write.into_part(|table| table.name().to_owned()).put.unwrap();
        assert_eq!((&put.item["chat_id"], &put.item["user_id"]), (&text("chat_1"), &text("user_1")));
        assert_eq!(put.condition_expression.unwrap(), "attribute_not_exists(#chat_id)");
        assert_eq!(put.expression_attribute_values, None);
    }
}
