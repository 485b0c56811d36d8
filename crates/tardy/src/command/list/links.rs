//! The list of links that the probe `response` measures and `tardy respond` answers.

use tardy_probes::link::LINKS;

use super::{Entry, Listing};

pub(super) fn listing() -> Listing {
    let entries = LINKS.iter().map(|link| {
        let json =
            serde_json::json!({ "name": link.name, "form": link.written(), "carries": link.carries, "answered_by": link.answered_by });
        let full = format!("{}\n    carries  {}\n    answered by \
                            {}\n", link.written(), link.carries, link.answered_by);
        Entry { name: link.name.to_owned(), line: format!("{:<28} \
                          {}", link.written(), link.carries), full, json, group: None }
    });
    let note = "as in --probe response:udp:board7, with `tardy respond udp:0.0.0.0` on board7";
    Listing {
        entries: entries.collect(),
        note: Some(note.to_owned()),
    }
}
