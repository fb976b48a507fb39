use std::sync::LazyLock;

use clap::Args;
use serde::{Deserialize, Serialize};

/// The default prices.
pub(super) static LIST: LazyLock<PriceList> =
    LazyLock::new(|| toml::from_str(include_str!("prices.toml")).expect("a test parses the file"));

static HEADING: LazyLock<String> = LazyLock::new(|| format!("Prices, in US dollars ({})", LIST.basis()));

/// List prices of one region, looked up in one month. `prices.toml` has them.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceList {
    /// The month, as `2025-11`.
    as_of: String,
    region: String,
    write_units: ListPrice,
    read_units: ListPrice,
    table_gb: ListPrice,
    broker_hour: ListPrice,
    broker_gb: ListPrice,
    redis_hour: ListPrice,
    core_hour: ListPrice,
    memory_hour: ListPrice,
    egress_gb: ListPrice,
}

/// A price, and the page that states it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ListPrice {
    usd: f64,
    source: String,
}

impl PriceList {
    /// The region and the month of the prices.
    pub(super) fn basis(&self) -> String {
        format!("{}, as of {}", self.region, self.as_of)
    }
}

/// Prices in US dollars. The defaults are list prices without any discount; look up the current ones, and pass them.
#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = HEADING.as_str())]
pub(super) struct Prices {
    /// A million write units of DynamoDB, on demand.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.write_units.usd)]
    pub(super) write_units: f64,
    /// A million read units of DynamoDB, on demand.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.read_units.usd)]
    pub(super) read_units: f64,
    /// A GB of DynamoDB for a month.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.table_gb.usd)]
    pub(super) table_gb: f64,
    /// An hour of one Kafka broker (kafka.m7g.large).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.broker_hour.usd)]
    pub(super) broker_hour: f64,
    /// A GB of a broker's disk for a month.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.broker_gb.usd)]
    pub(super) broker_gb: f64,
    /// An hour of one Redis node (cache.m7g.large).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.redis_hour.usd)]
    pub(super) redis_hour: f64,
    /// An hour of one core for a Tidings process (Fargate).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.core_hour.usd)]
    pub(super) core_hour: f64,
    /// An hour of one GiB for a Tidings process (Fargate).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.memory_hour.usd)]
    pub(super) memory_hour: f64,
    /// A GB of traffic to the clients.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = LIST.egress_gb.usd)]
    pub(super) egress_gb: f64,
}

fn price(text: &str) -> Result<f64, String> {
    let price: f64 = text.parse().map_err(|_| format!("`{text}` is no price"))?;
    // NaN is in no range.
    if (0.0..=1e6).contains(&price) { Ok(price) } else { Err(format!("a price of {price} is not from 0 to 1000000")) }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct PricesCli {
        #[command(flatten)]
        prices: Prices,
    }

    pub(in crate::capacity) fn prices() -> Prices {
        PricesCli::parse_from(["tidings"]).prices
    }

    #[test]
    fn every_list_price_is_plausible_and_has_a_date_and_a_source() {
        let list = &*LIST;
        let (year, month) = list.as_of.split_once('-').unwrap();
        assert!(year.parse::<u32>().is_ok_and(|year| (2025..2100).contains(&year)), "{}", list.as_of);
        assert!(
            month.len() == 2 && month.parse::<u32>().is_ok_and(|month| (1..=12).contains(&month)),
            "{}",
            list.as_of
        );
        assert!(!list.region.is_empty());
        let prices = serde_json::to_value(list).unwrap();
        let prices = prices.as_object().unwrap().iter().filter(|(_, price)| price.is_object());
        let mut count = 0;
        for (name, price) in prices {
            assert!(price["usd"].as_f64().is_some_and(|usd| usd > 0.0 && usd < 10.0), "{name}: {price}");
            assert!(price["source"].as_str().unwrap().starts_with("https://"), "{name}: {price}");
            count += 1;
        }
        assert_eq!(count, 9);
    }

    #[test]
    fn a_price_must_be_a_plausible_number() {
        assert_eq!(price("0.25"), Ok(0.25));
        assert_eq!(price("cheap"), Err("`cheap` is no price".to_owned()));
        assert!(["-1", "NaN", "inf"].iter().all(|text| price(text).is_err()));
    }
}
