//! Converts the lines of a file to rows. Each row is validated as strictly as the request that would create it, except for
//! rules of names that are newer than the file may be.

use anyhow::{Context, bail, ensure};
use domain::limits::{
    CREDENTIAL_ID_BYTES_MAX, DENIED_TOKENS_MAX, GROUP_MEMBERS_MAX, PASSKEY_KEY_BYTES_MAX, REACTION_KINDS_MAX,
    REACTIONS_PER_USER_MAX, TOKEN_CHAINS_MAX,
};
use domain::{
    Body, Chat, ChatName, ChatType, DeliveryState, DeniedToken, DirectPair, DisplayName, Edited, Invitation, Member,
    Message, MessageState, MessageUpdate, Passkey, PushDevice, PushTarget, ReactionCount, Restrictions, Sequence,
    Session, SpentToken, Suspension, SuspensionReason, TokenChain, Ttl, UpdateKind, User, Watermarks,
    WebPushSubscription,
};
use ports::{ExportedSend, Head, LastMessage, MemberReactions, MessageKey, Moved, Receipt, UserKey};

use super::{
    ExportBlockRow, ExportChatRow, ExportContactRow, ExportDeniedTokenRow, ExportInvitationRow, ExportLastMessageRow,
    ExportLine, ExportMemberRow, ExportMessageRow, ExportPairRow, ExportPasskeyRow, ExportPushDeviceRow,
    ExportReactionCountRow, ExportReactionsRow, ExportRestrictionRow, ExportSendRow, ExportSessionRow, ExportSpentRow,
    ExportStateRow, ExportSuspensionRow, ExportTargetRow, ExportTokenChainRow, ExportUpdateRow, ExportUserKeyRow,
    ExportUserRow,
};

impl ExportLine {
    /// The row of a line.
    pub(in crate::tools::transfer) fn moved(self) -> anyhow::Result<Moved> {
        match self {
            Self::User(row) => row.moved(),
            Self::UserKey(row) => row.moved(),
            Self::Contact(row) => row.moved(),
            Self::Block(row) => row.moved(),
            Self::Restriction(row) => row.moved(),
            Self::Invitation(row) => row.moved(),
            Self::Passkey(row) => row.moved(),
            Self::Session(row) => row.moved(),
            Self::PushDevice(row) => row.moved(),
            Self::Chat(row) => row.moved(),
            Self::Pair(row) => row.moved(),
            Self::Member(row) => row.moved(),
            Self::Message(row) => row.moved(),
            Self::Send(row) => row.moved(),
            Self::Update(row) => row.moved(),
            Self::Reactions(row) => row.moved(),
            Self::Header(_) => bail!("a second header"),
            Self::Checksum(_) | Self::Trailer(_) => bail!("it is not a row"),
        }
    }
}

impl ExportUserRow {
    fn moved(self) -> anyhow::Result<Moved> {
        Ok(Moved::User(User {
            user_id: self.user_id,
            phone_number: self.phone_number.map(|number| number.parse()).transpose()?,
            external_id: self.external_id.map(|external_id| external_id.try_into()).transpose()?,
            display_name: DisplayName::from_stored(self.display_name)?,
            presence_visibility: self.presence_visibility,
            group_invites: self.group_invites,
            created_at: self.created_at,
            updated_at: self.updated_at,
            last_seen_at: self.last_seen_at,
            deleted_at: self.deleted_at,
        }))
    }
}

impl ExportUserKeyRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let key = match (self.phone_number, self.issuer, self.subject) {
            (Some(number), None, None) => UserKey::Phone(number.parse()?),
            (None, Some(issuer), Some(subject)) => {
                ensure!(!issuer.is_empty(), "`issuer` is empty");
                UserKey::External { issuer, subject: subject.try_into().context("`subject`")? }
            }
            _ => bail!("a key is a `phone_number`, or an `issuer` and a `subject`"),
        };
        Ok(Moved::UserKey { key, user_id: self.user_id })
    }
}

impl ExportBlockRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let Self { user_id, blocked_id } = self;
        ensure!(user_id != blocked_id, "`{user_id}` has blocked themselves");
        Ok(Moved::Block { user_id, blocked_id })
    }
}

impl ExportInvitationRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let Self { chat_id, user_id, invited_by, created_at, declined_at } = self;
        ensure!(user_id != invited_by, "`{user_id}` has invited themselves");
        Ok(Moved::Invitation(Invitation { chat_id, user_id, invited_by, created_at, declined_at }))
    }
}

impl ExportRestrictionRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let suspension = |ExportSuspensionRow { since, reason }| {
            let reason = reason.map(SuspensionReason::try_from).transpose().context("`suspension.reason`")?;
            anyhow::Ok(Suspension { since, reason })
        };
        let denied = |ExportDeniedTokenRow { token_id, denied_at, expires_at }| {
            anyhow::Ok(DeniedToken { token_id: unhex("denied.token_id", &token_id)?, denied_at, expires_at })
        };
        let len = self.denied.len();
        ensure!(len <= DENIED_TOKENS_MAX, "`denied` has {len} tokens, limit is {DENIED_TOKENS_MAX}");
        let restrictions = Restrictions {
            suspension: self.suspension.map(suspension).transpose()?,
            not_before: self.not_before,
            denied: self.denied.into_iter().map(denied).collect::<anyhow::Result<_>>()?,
        };
        Ok(Moved::Restriction { user_id: self.user_id, restrictions })
    }
}

impl ExportContactRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let Self { user_id, contact_id } = self;
        ensure!(user_id != contact_id, "`{user_id}` has listed themselves");
        Ok(Moved::Contact { user_id, contact_id })
    }
}

impl ExportSessionRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let spent = |spent: ExportSpentRow| {
            let ExportSpentRow { digest, spent_at, forgiven } = spent;
            anyhow::Ok(SpentToken { digest: unhex("spent.digest", &digest)?, spent_at, forgiven })
        };
        ensure!(self.overtaken.len() < TOKEN_CHAINS_MAX, "a session has {} overtaken tokens", self.overtaken.len());
        let chain = |chain: ExportTokenChainRow| {
            let ExportTokenChainRow { current, spent: before } = chain;
            let current = unhex("overtaken.current", &current)?;
            anyhow::Ok(TokenChain { current, spent: before.map(spent).transpose()? })
        };
        Ok(Moved::Session(Session {
            session_id: self.session_id,
            user_id: self.user_id,
            device_id: self.device_id,
            created_at: self.created_at,
            last_active_at: self.last_active_at,
            expires_at: self.expires_at,
            current: unhex("current", &self.current)?,
            spent: self.spent.map(spent).transpose()?,
            overtaken: self.overtaken.into_iter().map(chain).collect::<Result<_, _>>()?,
        }))
    }
}

impl ExportPushDeviceRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let target = match self.target {
            ExportTargetRow::Webhook { token } => PushTarget::Webhook(token.try_into().context("`token`")?),
            ExportTargetRow::WebPush { endpoint, p256dh, auth } => {
                let (p256dh, auth): ([u8; 65], [u8; 16]) = (unhex("p256dh", &p256dh)?, unhex("auth", &auth)?);
                PushTarget::WebPush(WebPushSubscription::new(endpoint, &p256dh, &auth).context("`target`")?)
            }
        };
        let Self { user_id, device_id, registered_at, .. } = self;
        Ok(Moved::PushDevice(PushDevice { user_id, device_id, target, registered_at }))
    }
}

impl ExportPasskeyRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let credential_id = unhex_bounded("credential_id", &self.credential_id, CREDENTIAL_ID_BYTES_MAX)?;
        Ok(Moved::Passkey(Passkey {
            passkey_id: self.passkey_id,
            user_id: self.user_id,
            credential_id: credential_id.try_into()?,
            public_key: unhex_bounded("public_key", &self.public_key, PASSKEY_KEY_BYTES_MAX)?,
            sign_count: self.sign_count,
            is_backup_eligible: self.is_backup_eligible,
            is_backed_up: self.is_backed_up,
            name: DisplayName::from_stored(self.name).context("`name`")?,
            created_at: self.created_at,
            last_used_at: self.last_used_at,
        }))
    }
}

impl ExportChatRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let has_name = self.name.is_some();
        ensure!(has_name == (self.chat_type == ChatType::Group), "a group has a `name`, and a direct chat has none");
        let count = self.member_count as usize;
        ensure!(count <= GROUP_MEMBERS_MAX, "`member_count` is {count}, limit is {GROUP_MEMBERS_MAX}");
        ensure!(self.head < Sequence(i64::MAX as u64), "no message can follow `head` {}", self.head);
        let ttl =
            |seconds| Ttl::from_secs(seconds).with_context(|| format!("`message_ttl_seconds` cannot be {seconds}"));
        let message_ttl = self.message_ttl_seconds.map(ttl).transpose()?;
        let last_message = |last: ExportLastMessageRow| {
            let sequence = last.sequence.unwrap_or(self.head);
            ensure!(sequence <= self.head, "`last_message` has sequence {sequence}, and `head` is {}", self.head);
            anyhow::Ok(LastMessage {
                message_id: last.message_id,
                sequence,
                sender_id: last.sender_id,
                preview: last.preview.map(TryInto::try_into).transpose()?,
                created_at: last.created_at,
                expires_at: last.expires_at,
            })
        };
        let last_message = self.last_message.map(last_message).transpose()?;
        let chat = Chat {
            chat_id: self.chat_id,
            chat_type: self.chat_type,
            name: self.name.map(ChatName::from_stored).transpose()?,
            created_by: self.created_by,
            created_at: self.created_at,
            updated_at: self.updated_at,
            member_count: self.member_count,
            message_ttl,
        };
        Ok(Moved::Chat { chat, head: Head { sequence: self.head, last_message, message_ttl, changes: self.changes } })
    }
}

impl ExportPairRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let [one, other] = self.user_ids;
        let pair =
            DirectPair::new(one, other).with_context(|| format!("`{one}` cannot form a pair with themselves"))?;
        Ok(Moved::Pair { pair, chat_id: self.chat_id })
    }
}

impl ExportMemberRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let Self { chat_id, user_id, role, joined_at, muted_until, delivered, delivered_at, read, read_at } = self;
        ensure!(read <= delivered, "read up to {read} and delivered up to {delivered}");
        let delivery_state = DeliveryState { watermarks: Watermarks { delivered, read }, delivered_at, read_at };
        Ok(Moved::Member { chat_id, member: Member { user_id, role, joined_at, muted_until }, delivery_state })
    }
}

impl ExportMessageRow {
    fn moved(self) -> anyhow::Result<Moved> {
        ensure!(self.sequence > Sequence::ZERO, "sequences begin at 1");
        Ok(Moved::Message(Message {
            message_id: self.message_id,
            chat_id: self.chat_id,
            sequence: self.sequence,
            sender_id: self.sender_id,
            client_message_id: self.client_message_id,
            body: Body::new(self.content.try_into()?, self.content_type).with_metadata(self.metadata),
            created_at: self.created_at,
            expires_at: self.expires_at,
            state: self.state.map(ExportStateRow::state).transpose()?.unwrap_or_default(),
        }))
    }
}

impl ExportStateRow {
    fn state(self) -> anyhow::Result<MessageState> {
        let Self { revision, edited_at, edit_count, reactions } = self;
        let edited = match (edited_at, edit_count) {
            (Some(at), Some(count)) => Some(Edited { at, count }),
            (None, None) => None,
            _ => bail!("`state` has only one of `edited_at` and `edit_count`"),
        };
        let kinds = reactions.len();
        ensure!(kinds <= REACTION_KINDS_MAX, "`state` has {kinds} reactions, limit is {REACTION_KINDS_MAX}");
        let count = |ExportReactionCountRow { reaction, count }| ReactionCount { reaction, count };
        Ok(MessageState { revision, edited, reactions: reactions.into_iter().map(count).collect() })
    }
}

impl ExportUpdateRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let Self { sequence, target_sequence: target, change, reaction, .. } = self;
        ensure!(target > Sequence::ZERO, "sequences begin at 1");
        ensure!(target < sequence, "an update at {sequence} follows its message, and `target_sequence` is {target}");
        let kind = UpdateKind::from_parts(&change, reaction);
        let kind = kind.with_context(|| format!("`change` and `reaction` do not fit: `{change}`"))?;
        Ok(Moved::Update(MessageUpdate {
            update_id: self.update_id,
            chat_id: self.chat_id,
            sequence,
            user_id: self.user_id,
            client_message_id: self.client_message_id,
            target,
            kind,
            created_at: self.created_at,
            expires_at: self.expires_at,
        }))
    }
}

impl ExportReactionsRow {
    fn moved(self) -> anyhow::Result<Moved> {
        let Self { chat_id, sequence, message_id, user_id, reactions } = self;
        ensure!(sequence > Sequence::ZERO, "sequences begin at 1");
        let count = reactions.len();
        ensure!(
            (1..=REACTIONS_PER_USER_MAX).contains(&count),
            "a member has {count} reactions on a message, it must be 1 to {REACTIONS_PER_USER_MAX}"
        );
        let message = MessageKey { chat_id, sequence, message_id };
        Ok(Moved::Reactions { message, member: MemberReactions { user_id, reactions } })
    }
}

impl ExportSendRow {
    fn moved(self) -> anyhow::Result<Moved> {
        ensure!(self.sequence > Sequence::ZERO, "sequences begin at 1");
        let Self { chat_id, sender_id, client_message_id, message_id, sequence, created_at, fingerprint } = self;
        let fingerprint = unhex("fingerprint", &fingerprint)?;
        let receipt = Receipt { message_id, sequence, created_at };
        Ok(Moved::Send(ExportedSend { chat_id, sender_id, client_message_id, receipt, fingerprint }))
    }
}

/// Decodes the bytes of a field. The error does not repeat the value, which may be secret.
fn unhex<const N: usize>(field: &str, text: &str) -> anyhow::Result<[u8; N]> {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
    let bytes = bytes.filter(|_| is_hex && text.len() == 2 * N).and_then(|bytes| bytes.try_into().ok());
    bytes.with_context(|| format!("`{field}` is not {N} bytes in lower-case hexadecimal digits"))
}

/// Bytes of any length up to `len_max`.
fn unhex_bounded(field: &str, text: &str, len_max: usize) -> anyhow::Result<Vec<u8>> {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) && text.len().is_multiple_of(2);
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
    let bytes = bytes.filter(|bytes| is_hex && (1..=len_max).contains(&bytes.len()));
    bytes.with_context(|| format!("`{field}` is not 1 to {len_max} bytes in lower-case hexadecimal digits"))
}
