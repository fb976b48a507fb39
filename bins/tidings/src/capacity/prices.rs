use clap::Args;
use serde::Serialize;

/// What things are paid with, in US dollars: list prices of us-east-1 without any discount, as of November 2025. Ask for
/// today's, and give them.
#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Prices, in US dollars (us-east-1, November 2025)")]
pub(super) struct Prices {
    /// A million write units of DynamoDB, on demand.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.625)]
    pub(super) write_units: f64,
    /// A million read units of DynamoDB, on demand.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.125)]
    pub(super) read_units: f64,
    /// A GB of DynamoDB for a month.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.25)]
    pub(super) table_gb: f64,
    /// An hour of one Kafka broker (kafka.m7g.large).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.204)]
    pub(super) broker_hour: f64,
    /// A GB of a broker's disk for a month.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.10)]
    pub(super) broker_gb: f64,
    /// An hour of one Redis node (cache.m7g.large).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.158)]
    pub(super) redis_hour: f64,
    /// An hour of one core for a process of ours (Fargate).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.04048)]
    pub(super) core_hour: f64,
    /// An hour of one GiB for a process of ours (Fargate).
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.004445)]
    pub(super) memory_hour: f64,
    /// A GB that leaves for the clients.
    #[arg(long, value_name = "USD", value_parser = price, default_value_t = 0.09)]
    pub(super) egress_gb: f64,
}

fn price(text: &str) -> Result<f64, String> {
    let price: f64 = text.parse().map_err(|_| format!("`{text}` is no price"))?;
    // What is no number at all is in no range.
    if (0.0..=1e6).contains(&price) { Ok(price) } else { Err(format!("a price of {price} is not from 0 to 1000000")) }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Asked {
        #[command(flatten)]
        prices: Prices,
    }

    pub(in crate::capacity) fn prices() -> Prices {
        Asked::parse_from(["tidings"]).prices
    }

    #[test]
    fn a_price_is_a_number_that_somebody_could_pay() {
        assert_eq!(price("0.25"), Ok(0.25));
        assert_eq!(price("cheap"), Err("`cheap` is no price".to_owned()));
        assert!(["-1", "NaN", "inf"].iter().all(|text| price(text).is_err()));
    }
}
