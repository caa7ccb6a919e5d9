//! The plug-ins of the crawler: one file each, and one line each in [`PLUGINS`].

mod fetchers;
mod page;
#[cfg(test)]
mod rig;
mod shared;
mod urls;

mod change_detector;
mod charset_decoder;
mod content_filter;
mod domain_filter;
mod downloader;
mod field_extractor;
mod frontier;
mod link_extractor;
mod near_duplicates;
mod page_store;
mod robots;
mod seed;
mod seen_urls;
mod text_extractor;
mod to_csv;
mod url_normaliser;
mod warc_writer;

use flows::plugins::BuiltIn;

/// All of them, in the order in which they are explained.
pub static PLUGINS: &[BuiltIn] = &[
    BuiltIn::of::<seed::Seed>(),
    BuiltIn::of::<url_normaliser::UrlNormaliser>(),
    BuiltIn::of::<seen_urls::SeenUrls>(),
    BuiltIn::of::<frontier::Frontier>(),
    BuiltIn::of::<domain_filter::DomainFilter>(),
    BuiltIn::of::<robots::Robots>(),
    BuiltIn::of::<downloader::Downloader>(),
    BuiltIn::of::<content_filter::ContentFilter>(),
    BuiltIn::of::<charset_decoder::CharsetDecoder>(),
    BuiltIn::of::<link_extractor::LinkExtractor>(),
    BuiltIn::of::<text_extractor::TextExtractor>(),
    BuiltIn::of::<field_extractor::FieldExtractor>(),
    BuiltIn::of::<near_duplicates::NearDuplicates>(),
    BuiltIn::of::<change_detector::ChangeDetector>(),
    BuiltIn::of::<page_store::PageStore>(),
    BuiltIn::of::<warc_writer::Warc>(),
    BuiltIn::of::<to_csv::ToCsv>(),
];
