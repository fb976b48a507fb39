//! The bodies of the REST API, field by field as the contract has them.
//!
//! A success is [`Data`] or [`Paged`], a failure is [`Failure`]. The server writes and the client SDK reads them, so
//! every body both serializes and deserializes.

mod account;
mod auth;
mod blocks;
mod chats;
mod devices;
mod invitations;
mod messages;
mod passkeys;
mod reports;
mod sensitive;
mod service;
mod users;

pub use account::{AccountDeletion, DeleteMe, Export, ExportedChat, ExportedDevice, ExportedInvitation};
pub use auth::{
    OtpRequested, RefreshTokens, RequestOtp, Revoked, Session, Sessions, SignedIn, Tokens, TokensRefreshed, VerifyOtp,
    WsTicket,
};
pub use blocks::Blocks;
pub use chats::{
    AddMember, ChangeRole, ChatDetails, ChatSummary, CreateChat, Inbox, LastMessage, Member, Mute, Muted, MyMembership,
    UpdateChat,
};
pub use devices::{PushKeys, PushProvider, PushRegistration};
pub use invitations::{Invitation, Invitations};
pub use messages::{
    Around, EditMessage, History, MarkDelivered, MarkRead, MarkedRead, MemberWatermarks, Message, MessageStatus,
    Reactions, Reactor, Receipts, SendMessage,
};
pub use passkeys::{
    AddPasskey, PasskeyAlgorithm, PasskeyAttestation, PasskeyAuthentication, PasskeyAuthenticatorSelection,
    PasskeyCreationOptions, PasskeyDescriptor, PasskeyRegistration, PasskeyRelyingParty, PasskeyRequestOptions,
    PasskeySignature, PasskeySummary, PasskeyUserEntity, Passkeys, PublicKeyType, SignInWithPasskey,
};
pub use reports::{FileReport, Reported};
pub use sensitive::Sensitive;
pub use service::{Service, ServiceLimits};
pub use users::{Contacts, Lookup, LookupResults, Me, PresenceQuery, UpdateMe, User};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorBody;

/// A success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Data<T> {
    /// The response data.
    pub data: T,
}

/// A success with one page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Paged<T> {
    /// This page.
    pub data: T,
    /// How to get the next page.
    pub pagination: Pagination,
}

/// How a list continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pagination {
    /// Opaque; `null` at the end of the list.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
    /// Whether there is another page.
    pub has_more: bool,
}

impl Pagination {
    /// A page with another one after `next_cursor`, or the last page.
    pub fn new(next_cursor: Option<String>) -> Self {
        Self { has_more: next_cursor.is_some(), next_cursor }
    }
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// The error.
    pub error: FailureBody,
}

/// The error, and the id of the request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureBody {
    /// Code, text and details.
    #[serde(flatten)]
    pub body: ErrorBody,
    /// The `X-Request-ID` of the response, for a report to the operator.
    pub request_id: String,
}

/// One entry of `details.field_errors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The field, parameter or header.
    pub field: String,
    /// Why it is invalid.
    pub message: String,
}

impl FieldError {
    /// The `details` of a `VALIDATION_ERROR` with this field error.
    pub fn into_details(self) -> serde_json::Value {
        serde_json::json!({ "field_errors": [self] })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use domain::{ChatId, ClientMessageId, ContentType, MessageId, Sequence, Timestamp, UserId};
    use serde_json::json;

    use super::*;
    use crate::ErrorCode;
    use crate::frame::MessageBody;

    #[test]
    fn a_failure_is_flat_inside_its_envelope() {
        let body = ErrorBody::new(ErrorCode::ValidationError, "limit: is 0");
        let details = FieldError { field: "limit".to_owned(), message: "is 0".to_owned() }.into_details();
        let failure = Failure { error: FailureBody { body: body.with_details(details), request_id: "r1".to_owned() } };
        let wire = json!({ "error": {
            "code": "VALIDATION_ERROR",
            "message": "limit: is 0",
            "details": { "field_errors": [{ "field": "limit", "message": "is 0" }] },
            "request_id": "r1",
        } });
        assert_eq!(serde_json::to_value(&failure).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Failure>(wire).unwrap(), failure);
    }

    #[test]
    fn a_page_of_borrowed_messages_deserializes_into_owned_ones() {
        let message = MessageBody {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(3),
            sender_id: UserId::from_bytes([4; 16]),
            content: Cow::Borrowed("a \"quoted\" word"),
            content_type: ContentType::Text,
            metadata: None,
            created_at: Timestamp::from_millis(5),
            expires_at: None,
            client_message_id: Some(ClientMessageId::from_bytes([6; 16])),
            state: None,
        };
        let messages = vec![Message { message, status: Some(MessageStatus::Delivered) }];
        let page = Paged { data: History { messages, head_sequence: Sequence(9) }, pagination: Pagination::new(None) };
        let text = serde_json::to_string(&page).unwrap();
        assert_eq!(serde_json::from_str::<Paged<History<'static>>>(&text).unwrap(), page);
    }

    #[test]
    fn debug_masks_sensitive_fields() {
        let tokens = Tokens {
            access_token: "secret".into(),
            refresh_token: "secret".into(),
            token_type: "Bearer".to_owned(),
            expires_in: 3600,
        };
        let verify = VerifyOtp {
            phone_number: "+14155550100".into(),
            otp: "secret".into(),
            device_id: domain::DeviceId::from_bytes([1; 16]),
            display_name: None,
        };
        let shown = format!("{tokens:?} {verify:?}");
        assert!(shown.contains("3600") && !shown.contains("secret") && !shown.contains("415555"), "{shown}");
    }
}
