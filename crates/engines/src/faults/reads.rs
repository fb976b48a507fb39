use serde_json::Value;

use super::http::Whole;

/// A read of one table, as a client has requested it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRead {
    /// The table, with its prefix.
    pub table: String,
    /// The index, if the read is of one.
    pub index: Option<String>,
    /// Whether the read has to see every earlier write.
    pub is_strong: bool,
}

/// The reads of a request: one for each table that it names.
pub(super) fn reads(request: &Whole) -> Vec<ObservedRead> {
    let body = request.json();
    let read = |table: &Value, of: &Value| ObservedRead {
        table: table.as_str().unwrap_or_default().to_owned(),
        index: of["IndexName"].as_str().map(str::to_owned),
        is_strong: of["ConsistentRead"] == true,
    };
    match request.operation() {
        "GetItem" | "Query" | "Scan" => vec![read(&body["TableName"], &body)],
        "BatchGetItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            tables.map(|(table, of)| read(&table.as_str().into(), of)).collect()
        }
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(operation: &str, body: &str) -> Vec<(String, Option<String>, bool)> {
        let head = format!("POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n\r\n");
        let reads = reads(&Whole { head, body: body.as_bytes().to_vec() }).into_iter();
        reads.map(|ObservedRead { table, index, is_strong }| (table, index, is_strong)).collect()
    }

    #[test]
    fn each_table_of_a_request_is_a_read_with_its_own_consistency() {
        let of = |table: &str, index: Option<&str>, is_strong| (table.to_owned(), index.map(str::to_owned), is_strong);
        assert_eq!(observed("GetItem", r#"{"TableName":"a","ConsistentRead":true}"#), [of("a", None, true)]);
        assert_eq!(observed("Scan", r#"{"TableName":"a"}"#), [of("a", None, false)]);
        let query = r#"{"TableName":"a","IndexName":"i","ConsistentRead":false}"#;
        assert_eq!(observed("Query", query), [of("a", Some("i"), false)]);
        let batch = r#"{"RequestItems":{"a":{"Keys":[],"ConsistentRead":true},"b":{"Keys":[]}}}"#;
        assert_eq!(observed("BatchGetItem", batch), [of("a", None, true), of("b", None, false)]);
        assert_eq!(observed("UpdateItem", r#"{"TableName":"a"}"#), []);
    }
}
