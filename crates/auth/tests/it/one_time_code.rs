use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::DisplayName;
use futures_util::future::join_all;
use tidings_auth::{AuthError, Config, Limits, VerifyOtp};

use crate::world::{IP, MINUTE, PHONE, World, device, start};

fn give_back<'a>(phone: &'a str, otp: &'a str) -> VerifyOtp<'a> {
    VerifyOtp { phone, otp, ip: IP, device_id: device(1), display_name: None }
}

/// A code of six digits that differs from `code`.
fn other_than(code: &str) -> &'static str {
    if code == "111111" { "222222" } else { "111111" }
}

#[tokio::test]
async fn a_code_signs_its_owner_in_once() {
    let world = World::new();
    let requested = world.auth.request_otp(PHONE, IP).await.unwrap();
    assert_eq!(requested.phone_number.as_str(), PHONE);
    assert_eq!(requested.expires_at, start() + 5 * MINUTE);
    assert_eq!(requested.retry_after(), Duration::ZERO);

    let otp = world.phones.last_code();
    let signed_in = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap();
    assert!(signed_in.is_new_user);
    assert_eq!(signed_in.user.phone_number.as_ref().map(|number| number.as_str()), Some(PHONE));
    assert_eq!(signed_in.session.user_id, signed_in.user.user_id);
    assert_eq!(signed_in.session.device_id, device(1));
    assert_eq!(signed_in.session.expires_at, start() + Duration::from_secs(30 * 24 * 3600));
    assert_eq!(signed_in.tokens.expires_in, Duration::from_secs(3600));

    let again = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap_err();
    assert!(matches!(again, AuthError::WrongCode), "{again:?}");
}

#[tokio::test]
async fn a_known_number_gets_the_same_answer_as_a_new_one_and_its_user_back() {
    let world = World::new();
    let unknown = world.auth.request_otp(PHONE, IP).await.unwrap();
    let otp = world.phones.last_code();
    let first = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap();

    let known = world.auth.request_otp(PHONE, IP).await.unwrap();
    assert_eq!((known.phone_number, known.expires_at), (unknown.phone_number, unknown.expires_at));
    let otp = world.phones.last_code();
    let second = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap();
    assert!(!second.is_new_user);
    assert_eq!(second.user, first.user);
}

#[tokio::test]
async fn a_new_user_gets_the_name_given_or_a_neutral_one() {
    let world = World::new();
    let neutral = world.sign_in("+15550100001", device(1)).await.user;
    let id = neutral.user_id.to_string();
    assert_eq!(neutral.display_name.as_str(), format!("User {}", &id[id.len() - 4..]));

    world.auth.request_otp("+15550100002", IP).await.unwrap();
    let otp = world.phones.last_code();
    let display_name = DisplayName::try_from("Ada".to_owned()).ok();
    let verify = VerifyOtp { display_name, ..give_back("+15550100002", &otp) };
    assert_eq!(world.auth.verify_otp(verify).await.unwrap().user.display_name.as_str(), "Ada");
}

#[tokio::test]
async fn a_code_is_void_after_five_minutes() {
    let world = World::new();
    world.auth.request_otp(PHONE, IP).await.unwrap();
    world.clock.advance(5 * MINUTE);
    let late = world.auth.verify_otp(give_back(PHONE, &world.phones.last_code())).await.unwrap_err();
    assert!(matches!(late, AuthError::WrongCode), "{late:?}");
}

#[tokio::test]
async fn a_code_of_another_phone_is_wrong() {
    let world = World::new();
    world.auth.request_otp("+15550100001", IP).await.unwrap();
    let otp = world.phones.last_code();
    world.auth.request_otp("+15550100002", IP).await.unwrap();
    // With probability one in a million, both phones get the same code, which is then right.
    if world.phones.last_code() != otp {
        let error = world.auth.verify_otp(give_back("+15550100002", &otp)).await.unwrap_err();
        assert!(matches!(error, AuthError::WrongCode), "{error:?}");
    }
}

#[tokio::test]
async fn a_newer_code_replaces_the_one_before() {
    let world = World::new();
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let first = world.phones.last_code();
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let second = world.phones.last_code();
    if first != second {
        let error = world.auth.verify_otp(give_back(PHONE, &first)).await.unwrap_err();
        assert!(matches!(error, AuthError::WrongCode), "{error:?}");
    }
    assert!(world.auth.verify_otp(give_back(PHONE, &second)).await.unwrap().is_new_user);
}

#[tokio::test]
async fn five_wrong_codes_lock_the_phone_for_fifteen_minutes_even_for_a_new_code() {
    let world = World::new();
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let otp = world.phones.last_code();
    for _ in 0..5 {
        let wrong = world.auth.verify_otp(give_back(PHONE, other_than(&otp))).await.unwrap_err();
        assert!(matches!(wrong, AuthError::WrongCode), "{wrong:?}");
    }
    world.clock.advance(MINUTE);
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let otp = world.phones.last_code();
    let locked = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap_err();
    assert!(matches!(locked, AuthError::Locked { retry_after } if retry_after == 14 * MINUTE), "{locked:?}");
}

#[tokio::test]
async fn a_phone_gets_three_codes_in_fifteen_minutes() {
    let world = World::new();
    for _ in 0..2 {
        assert_eq!(world.auth.request_otp(PHONE, IP).await.unwrap().retry_after(), Duration::ZERO);
    }
    assert_eq!(world.auth.request_otp(PHONE, IP).await.unwrap().retry_after(), 5 * MINUTE);
    let error = world.auth.request_otp(PHONE, IP).await.unwrap_err();
    let AuthError::RateLimited { limit: "otp_request_per_phone", decision } = error else { panic!("{error:?}") };
    assert_eq!((decision.limit, decision.retry_after), (3, 5 * MINUTE));
    assert_eq!(world.phones.codes().len(), 3);
}

#[tokio::test]
async fn an_address_over_its_limit_takes_nothing_from_a_phone() {
    let world = World::new();
    for n in 0..10 {
        world.auth.request_otp(&format!("+1555010000{n}"), IP).await.unwrap();
    }
    for _ in 0..5 {
        let error = world.auth.request_otp(PHONE, IP).await.unwrap_err();
        assert!(matches!(error, AuthError::RateLimited { limit: "otp_request_per_ip", .. }), "{error:?}");
    }
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(world.auth.request_otp(PHONE, elsewhere).await.unwrap().retry_after(), Duration::ZERO);
}

#[tokio::test]
async fn wrong_codes_from_one_address_are_limited_over_all_phones() {
    let limits = Limits { otp_verify_per_ip: domain::Quota::per(3, 15 * MINUTE), ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() });
    for phone in ["+15550100001", "+15550100002", "+15550100003"] {
        let wrong = world.auth.verify_otp(give_back(phone, "000000")).await.unwrap_err();
        assert!(matches!(wrong, AuthError::WrongCode), "{wrong:?}");
    }
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let otp = world.phones.last_code();
    let over = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap_err();
    let AuthError::RateLimited { limit: "otp_verify_per_ip", decision } = over else { panic!("{over:?}") };
    assert_eq!(decision.retry_after, 5 * MINUTE);
    let elsewhere = VerifyOtp { ip: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), ..give_back(PHONE, &otp) };
    assert!(world.auth.verify_otp(elsewhere).await.unwrap().is_new_user, "the code is as good as before");
}

#[tokio::test]
async fn right_codes_from_one_address_are_not_limited() {
    let limits =
        Limits { otp_verify_per_ip: domain::Quota::per(1, 15 * MINUTE), otp_request_per_ip: None, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() });
    for phone in ["+15550100001", "+15550100002", "+15550100003"] {
        world.auth.request_otp(phone, IP).await.unwrap();
        let otp = world.phones.last_code();
        assert!(world.auth.verify_otp(give_back(phone, &otp)).await.unwrap().is_new_user);
    }
}

#[tokio::test]
async fn limits_that_are_off_do_not_count() {
    let world = World::with(Config { limits: Limits::OFF, ..Config::default() });
    for _ in 0..30 {
        assert_eq!(world.auth.request_otp(PHONE, IP).await.unwrap().retry_after(), Duration::ZERO);
    }
}

#[tokio::test]
async fn the_fixed_code_works_for_a_phone_that_asked_and_no_other() {
    let world = World::with(Config { fixed_code: Some("000000".to_owned()), ..Config::default() });
    let unasked = world.auth.verify_otp(give_back(PHONE, "000000")).await.unwrap_err();
    assert!(matches!(unasked, AuthError::WrongCode), "{unasked:?}");
    world.auth.request_otp(PHONE, IP).await.unwrap();
    assert!(world.auth.verify_otp(give_back(PHONE, "000000")).await.unwrap().is_new_user);
}

#[tokio::test]
async fn an_impossible_phone_number_is_refused_and_sent_no_code() {
    let world = World::new();
    for phone in ["", "15551234567", "+1555", "+9991234567", "+15551234567890"] {
        let error = world.auth.request_otp(phone, IP).await.unwrap_err();
        assert!(matches!(error, AuthError::InvalidPhoneNumber), "{phone}: {error:?}");
        let error = world.auth.verify_otp(give_back(phone, "000000")).await.unwrap_err();
        assert!(matches!(error, AuthError::InvalidPhoneNumber), "{phone}: {error:?}");
    }
    assert!(world.phones.codes().is_empty());
}

#[tokio::test]
async fn a_code_that_could_not_be_sent_is_reported() {
    let world = World::new();
    world.phones.fail();
    let error = world.auth.request_otp(PHONE, IP).await.unwrap_err();
    assert!(matches!(error, AuthError::NotDelivered), "{error:?}");
}

#[tokio::test]
async fn a_server_without_sign_in_by_phone_sends_and_accepts_no_code() {
    let world =
        World::with(Config { phone_sign_in: false, fixed_code: Some("000000".to_owned()), ..Config::default() });
    let requested = world.auth.request_otp(PHONE, IP).await.unwrap_err();
    assert!(matches!(requested, AuthError::PhoneSignInOff), "{requested:?}");
    let verified = world.auth.verify_otp(give_back(PHONE, "000000")).await.unwrap_err();
    assert!(matches!(verified, AuthError::PhoneSignInOff), "{verified:?}");
    assert!(world.phones.codes().is_empty());
}

#[tokio::test]
async fn five_wrong_codes_in_fifteen_minutes_are_all_however_many_codes_are_sent() {
    let limits = Limits { otp_verify_per_ip: None, otp_request_per_ip: None, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() });
    let mut wrong = 0;
    // A guess in every half minute, and a new code whenever one is to be had.
    for _ in 0..30 {
        drop(world.auth.request_otp(PHONE, IP).await);
        let guess = other_than(&world.phones.last_code());
        match world.auth.verify_otp(give_back(PHONE, guess)).await {
            Err(AuthError::WrongCode) => wrong += 1,
            Err(AuthError::Locked { .. }) => {}
            other => panic!("{other:?}"),
        }
        world.clock.advance(MINUTE / 2);
    }
    assert_eq!(wrong, 5);
}

#[tokio::test]
async fn guesses_at_once_are_no_more_than_guesses_one_after_the_other() {
    let limits = Limits { otp_verify_per_ip: None, otp_request_per_ip: None, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() });
    world.limits.are_distant.store(true, Ordering::Relaxed);
    let wrong = async || {
        world.auth.request_otp(PHONE, IP).await.unwrap();
        let guess = other_than(&world.phones.last_code());
        let outcomes = join_all((0..20).map(|_| world.auth.verify_otp(give_back(PHONE, guess)))).await;
        outcomes.iter().filter(|outcome| matches!(outcome, Err(AuthError::WrongCode))).count()
    };
    assert_eq!(wrong().await, 5);
    for _ in 0..3 {
        world.clock.advance(15 * MINUTE);
        assert_eq!(wrong().await, 1, "the limit has gained one try, although the code has five");
    }
}

#[tokio::test]
async fn right_codes_renew_no_tries() {
    let limits = Limits { otp_verify_per_ip: None, otp_request_per_ip: None, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() });
    world.limits.are_distant.store(true, Ordering::Relaxed);
    let attacker = |otp| VerifyOtp { device_id: device(9), ..give_back(PHONE, otp) };
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let guess = other_than(&world.phones.last_code());
    for _ in 0..3 {
        world.auth.verify_otp(attacker(guess)).await.unwrap_err();
    }
    world.auth.verify_otp(give_back(PHONE, &world.phones.last_code())).await.unwrap();
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let guess = other_than(&world.phones.last_code());
    let guesses = join_all((0..20).map(|_| world.auth.verify_otp(attacker(guess)))).await;
    let wrong = guesses.iter().filter(|outcome| matches!(outcome, Err(AuthError::WrongCode))).count();
    assert_eq!(wrong, 1, "three wrong codes and the right one have taken four of five");
}

#[tokio::test]
async fn a_lock_keeps_others_out_and_not_a_device_of_the_owner() {
    let world = World::new();
    let owner = world.sign_in(PHONE, device(1)).await;
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let attacker = |otp| VerifyOtp { device_id: device(9), ..give_back(PHONE, otp) };
    for _ in 0..5 {
        let guess = other_than(&world.phones.last_code());
        let wrong = world.auth.verify_otp(attacker(guess)).await.unwrap_err();
        assert!(matches!(wrong, AuthError::WrongCode), "{wrong:?}");
    }
    world.auth.request_otp(PHONE, IP).await.unwrap();
    let otp = world.phones.last_code();
    let locked = world.auth.verify_otp(attacker(&otp)).await.unwrap_err();
    assert!(matches!(locked, AuthError::Locked { .. }), "{locked:?}");
    let again = world.auth.verify_otp(give_back(PHONE, &otp)).await.unwrap();
    assert_eq!((again.user.user_id, again.is_new_user), (owner.user.user_id, false));
}

#[tokio::test]
async fn codes_are_limited_for_a_country_and_in_total() {
    let limits = Limits {
        otp_request_per_country: domain::Quota::per(2, 15 * MINUTE),
        otp_request_total: domain::Quota::per(3, 15 * MINUTE),
        ..Limits::OFF
    };
    let world = World::with(Config { limits, ..Config::default() });
    let outcome = async |phone: &str| match world.auth.request_otp(phone, IP).await {
        Ok(_) => "sent",
        Err(AuthError::RateLimited { limit, .. }) => limit,
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(outcome("+15550100001").await, "sent");
    assert_eq!(outcome("+15550100002").await, "sent");
    assert_eq!(outcome("+15550100003").await, "otp_request_per_country");
    assert_eq!(outcome("+4915112345678").await, "sent");
    assert_eq!(outcome("+447912345678").await, "otp_request_total");
    assert_eq!(world.phones.codes().len(), 3);
}

#[tokio::test]
async fn premium_numbers_get_no_code() {
    let world = World::new();
    for phone in ["+19002345678", "+881612345678"] {
        let refused = world.auth.request_otp(phone, IP).await.unwrap_err();
        assert!(matches!(refused, AuthError::PhoneNumberRefused), "{phone}: {refused:?}");
    }
    assert!(world.phones.codes().is_empty());
}
