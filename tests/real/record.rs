//! A Kafka record as producers write it: `ce-` headers, keyed by tenant.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::harness::CloudEvent;

/// One record; a value of `None` is a null.
#[derive(Clone, Debug)]
pub struct Record {
    pub topic: String,
    pub key: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub value: Option<Vec<u8>>,
}

impl Record {
    /// `event` of `tenant`, from the producer that `topic`'s last word names.
    pub fn of(topic: &str, tenant: &str, event: &CloudEvent) -> Self {
        let source = topic.rsplit('.').next().expect("a split text has a part");
        let headers = event.headers(source).into_iter().map(|(name, value)| (name, value.into_bytes()));
        let record = Self {
            topic: topic.to_owned(),
            key: tenant.to_owned(),
            headers: headers.collect(),
            value: Some(event.data.clone()),
        };
        record.with("ce-tenantid", tenant)
    }

    /// The same with one more header, whatever is there already.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The same with another value of one header.
    #[must_use]
    pub fn replacing(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).with(name, value)
    }

    /// The same without a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// The same with this value, or a null.
    #[must_use]
    pub fn valued(mut self, value: Option<Vec<u8>>) -> Self {
        self.value = value;
        self
    }

    /// As the client takes it.
    pub fn to_send(&self) -> BaseRecord<'_, str, [u8]> {
        let headers = self
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let record = BaseRecord::to(&self.topic).key(self.key.as_str()).headers(headers);
        match &self.value {
            Some(value) => record.payload(value),
            None => record,
        }
    }
}
