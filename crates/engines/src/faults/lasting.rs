use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::http::{Whole, header};
use super::request::{ItemUse, TableKeys};

const BAD_REQUEST: &str = "400 Bad Request";

/// A condition of the real service that no local server has, and that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastingFault {
    /// A partition that was used is hot, and its next request is throttled. A batch leaves the keys of hot partitions
    /// unprocessed, and a transaction is cancelled or refused.
    HotPartitions,
    /// A batch with several keys is processed in part: every second key is left unprocessed.
    PartialBatches,
    /// Another transaction has each written item at every second request: a transaction is cancelled, and an update
    /// refused.
    Conflicts,
}

/// The lasting faults of a proxy.
#[derive(Debug, Default)]
pub(super) struct LastingFaults {
    faults: Vec<LastingFault>,
    keys: TableKeys,
    /// Partitions, and items of conflicts, with a failed last request: the next one succeeds.
    spared: BTreeSet<String>,
    hits: usize,
}

/// The fate of a request.
pub(super) enum Verdict {
    /// The server executes it.
    Pass,
    /// It fails without effect.
    Refuse(Whole),
    /// The server executes a part of it.
    Part { request: Whole, left: Unprocessed },
}

/// The entries of a batch that are left unprocessed.
pub(super) struct Unprocessed {
    name: &'static str,
    entries: Map<String, Value>,
}

impl Unprocessed {
    /// The answer to the other part of the batch, with these entries.
    pub(super) fn added_to(self, answer: Whole) -> Whole {
        if !answer.is_ok() {
            return answer;
        }
        let mut body = answer.json();
        body[self.name] = Value::Object(self.entries);
        answer.with_body(&body)
    }
}

impl LastingFaults {
    pub(super) fn add(&mut self, fault: LastingFault) {
        self.faults.push(fault);
    }

    pub(super) fn hits(&self) -> usize {
        self.hits
    }

    pub(super) fn judge(&mut self, request: &Whole) -> Verdict {
        if request.operation() == "CreateTable" {
            self.keys.note(&request.json());
        }
        // The SDK numbers its attempts. A throttled request succeeds at the second one, as with a short burst.
        let is_repeated = header(&request.head, "amz-sdk-request").is_some_and(|said| !said.contains("attempt=1;"));
        if self.faults.is_empty() || is_repeated {
            return Verdict::Pass;
        }
        let body = request.json();
        let verdict = match request.operation() {
            "BatchGetItem" | "BatchWriteItem" => self.judge_batch(request, body),
            operation => self.judge_items(operation, &body),
        };
        self.hits += usize::from(!matches!(verdict, Verdict::Pass));
        verdict
    }

    fn has(&self, fault: LastingFault) -> bool {
        self.faults.contains(&fault)
    }

    fn judge_items(&mut self, operation: &str, body: &Value) -> Verdict {
        let used = self.keys.used(operation, body);
        if self.has(LastingFault::HotPartitions) {
            let hot = self.struck(used.iter().map(|used| format!("hot {operation} {}", used.partition)).collect());
            if hot.contains(&true) {
                return Verdict::Refuse(throttled(operation, &hot, self.hits));
            }
        }
        if self.has(LastingFault::Conflicts) && ["TransactWriteItems", "UpdateItem"].contains(&operation) {
            let held = self.struck(used.iter().map(|used| format!("held {}", used.item)).collect());
            if held.contains(&true) {
                return Verdict::Refuse(conflicting(operation, &held));
            }
        }
        Verdict::Pass
    }

    /// Which of these the fault hits. After a hit all of them are spared once, so that a repetition succeeds even if
    /// it needs many of them.
    fn struck(&mut self, names: Vec<String>) -> Vec<bool> {
        let struck: Vec<bool> = names.iter().map(|name| !self.spared.contains(name)).collect();
        if struck.contains(&true) {
            self.spared.extend(names);
        } else {
            self.spared.retain(|name| !names.contains(name));
        }
        struck
    }

    /// Divides a batch into processed and unprocessed entries.
    fn judge_batch(&mut self, request: &Whole, mut body: Value) -> Verdict {
        let reads = request.operation() == "BatchGetItem";
        let (mut left, mut processed, mut number) = (Map::new(), 0, 0);
        let Some(tables) = body["RequestItems"].as_object_mut() else { return Verdict::Pass };
        for (table, of_table) in tables.iter_mut() {
            let entries = if reads { &mut of_table["Keys"] } else { &mut *of_table };
            let (kept, unprocessed): (Vec<Value>, Vec<Value>) =
                entries.as_array().cloned().unwrap_or_default().into_iter().partition(|entry| {
                    number += 1;
                    let used = self.keys.entry(table, entry);
                    self.processes(request.operation(), &used, number)
                });
            processed += kept.len();
            *entries = Value::Array(kept);
            if !unprocessed.is_empty() {
                // A read repeats the other parameters of its table, such as the consistency.
                let mut rest = of_table.clone();
                *(if reads { &mut rest["Keys"] } else { &mut rest }) = Value::Array(unprocessed);
                left.insert(table.clone(), rest);
            }
        }
        tables.retain(|_, of_table| {
            !(if reads { &of_table["Keys"] } else { &*of_table }).as_array().is_none_or(Vec::is_empty)
        });
        if left.is_empty() {
            return Verdict::Pass;
        }
        if processed == 0 {
            return Verdict::Refuse(Whole::refusal(BAD_REQUEST, "ProvisionedThroughputExceededException", ""));
        }
        let name = if reads { "UnprocessedKeys" } else { "UnprocessedItems" };
        Verdict::Part { request: request.with_body(&body), left: Unprocessed { name, entries: left } }
    }

    fn processes(&mut self, operation: &str, used: &ItemUse, number: usize) -> bool {
        if self.has(LastingFault::PartialBatches) && number.is_multiple_of(2) {
            return false;
        }
        let name = format!("hot {operation} {}", used.partition);
        !self.has(LastingFault::HotPartitions) || self.struck(vec![name]) == [false]
    }
}

/// The refusal of a request to hot partitions, in one of the forms that the service has for it.
fn throttled(operation: &str, hot: &[bool], number: usize) -> Whole {
    match (operation, number.is_multiple_of(2)) {
        ("TransactWriteItems", true) => cancelled("ThrottlingError", hot),
        (_, true) => Whole::refusal(BAD_REQUEST, "ProvisionedThroughputExceededException", ""),
        (_, false) => Whole::refusal(BAD_REQUEST, "ThrottlingException", ""),
    }
}

fn conflicting(operation: &str, held: &[bool]) -> Whole {
    match operation {
        "TransactWriteItems" => cancelled("TransactionConflict", held),
        _ => Whole::refusal(BAD_REQUEST, "TransactionConflictException", ""),
    }
}

/// The cancellation of a transaction, with this code for some of its items.
fn cancelled(code: &str, of: &[bool]) -> Whole {
    let reason = |is_cause: &bool| json!({ "Code": if *is_cause { code } else { "None" } });
    let reasons: Vec<Value> = of.iter().map(reason).collect();
    let more = format!(r#","CancellationReasons":{}"#, Value::Array(reasons));
    Whole::refusal(BAD_REQUEST, "TransactionCanceledException", &more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: &str, body: &Value) -> Whole {
        let head = format!("POST / HTTP/1.1\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\r\n");
        Whole { head, body: vec![] }.with_body(body)
    }

    /// A proxy with this fault, in front of a table with two keys.
    fn faults(fault: LastingFault) -> LastingFaults {
        let mut faults = LastingFaults::default();
        faults.add(fault);
        let keys = json!([{ "AttributeName": "chat_id" }, { "AttributeName": "sequence" }]);
        faults.judge(&request("CreateTable", &json!({ "TableName": "messages", "KeySchema": keys })));
        faults
    }

    fn key(chat_id: &str, sequence: u64) -> Value {
        json!({ "chat_id": { "S": chat_id }, "sequence": { "N": sequence.to_string() } })
    }

    fn get(chat_id: &str, sequence: u64) -> Whole {
        request("GetItem", &json!({ "TableName": "messages", "Key": key(chat_id, sequence) }))
    }

    fn put(chat_id: &str, sequence: u64) -> Value {
        json!({ "Put": { "TableName": "messages", "Item": key(chat_id, sequence) } })
    }

    /// The body of the answer if the request is refused.
    fn refusal(verdict: Verdict) -> Option<String> {
        match verdict {
            Verdict::Pass => None,
            Verdict::Refuse(answer) => Some(String::from_utf8(answer.body).unwrap()),
            Verdict::Part { .. } => panic!("the request is executed in part"),
        }
    }

    #[test]
    fn every_second_request_to_a_partition_is_throttled() {
        let mut faults = faults(LastingFault::HotPartitions);
        let mut said = |request: &Whole| refusal(faults.judge(request)).is_some();
        assert!(said(&get("a", 1)));
        assert!(!said(&get("a", 2)), "it is the same partition");
        assert!(said(&get("b", 2)), "it is another one");
        assert!(said(&get("a", 1)));
        let repeated = get("c", 1);
        let repeated =
            Whole { head: repeated.head.replace("POST", "amz-sdk-request: attempt=2; max=5\r\nPOST"), ..repeated };
        assert!(!said(&repeated));
        assert_eq!(faults.hits(), 3);
    }

    #[test]
    fn a_conflict_names_the_items_that_another_transaction_has() {
        let mut faults = faults(LastingFault::Conflicts);
        let transaction = |sequences: [u64; 2]| {
            let parts = sequences.map(|sequence| put("a", sequence));
            request("TransactWriteItems", &json!({ "TransactItems": parts }))
        };
        let said = refusal(faults.judge(&transaction([1, 2]))).unwrap();
        assert_eq!(said.matches(r#"{"Code":"TransactionConflict"}"#).count(), 2, "{said}");
        let said = refusal(faults.judge(&transaction([2, 3]))).unwrap();
        assert!(said.contains(r#"[{"Code":"None"},{"Code":"TransactionConflict"}]"#), "{said}");
        assert_eq!(refusal(faults.judge(&transaction([2, 3]))), None);
        assert_eq!(refusal(faults.judge(&get("a", 1))), None, "no transaction is in the way of a read");
    }

    #[test]
    fn a_batch_is_processed_in_part() {
        let mut faults = faults(LastingFault::PartialBatches);
        let of_table = json!({ "Keys": [key("a", 1), key("a", 2), key("b", 3)], "ConsistentRead": true });
        let batch = request("BatchGetItem", &json!({ "RequestItems": { "messages": of_table } }));
        let Verdict::Part { request: part, left } = faults.judge(&batch) else { panic!("everything is processed") };
        let kept = json!({ "Keys": [key("a", 1), key("b", 3)], "ConsistentRead": true });
        assert_eq!(part.json(), json!({ "RequestItems": { "messages": kept } }));
        assert_eq!(header(&part.head, "content-length"), Some(part.body.len().to_string().as_str()));
        let answer = left.added_to(Whole::answer("200 OK", r#"{"Responses":{}}"#));
        let unprocessed = json!({ "messages": { "Keys": [key("a", 2)], "ConsistentRead": true } });
        assert_eq!(answer.json(), json!({ "Responses": {}, "UnprocessedKeys": unprocessed }));

        let entries = [1, 2].map(|sequence| json!({ "PutRequest": { "Item": key("a", sequence) } }));
        let batch = request("BatchWriteItem", &json!({ "RequestItems": { "messages": entries } }));
        let Verdict::Part { left, .. } = faults.judge(&batch) else { panic!("everything is processed") };
        let answer = left.added_to(Whole::answer("200 OK", "{}"));
        assert_eq!(answer.json(), json!({ "UnprocessedItems": { "messages": [entries[1]] } }));
    }

    #[test]
    fn a_batch_of_hot_partitions_is_refused() {
        let mut faults = faults(LastingFault::HotPartitions);
        let batch = |chats: &[&str]| {
            let keys: Vec<Value> = chats.iter().map(|chat_id| key(chat_id, 1)).collect();
            request("BatchGetItem", &json!({ "RequestItems": { "messages": { "Keys": keys } } }))
        };
        assert!(refusal(faults.judge(&batch(&["a"]))).unwrap().contains("ProvisionedThroughputExceeded"));
        let Verdict::Part { left, .. } = faults.judge(&batch(&["a", "b"])) else {
            panic!("`b` is hot, and `a` is not")
        };
        assert_eq!(left.entries["messages"]["Keys"], json!([key("b", 1)]));
    }
}
