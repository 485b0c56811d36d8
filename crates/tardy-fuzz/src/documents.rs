//! The readers of small documents must not panic on any bytes. These are the lists of accepted
//! builds, the index of an atlas, and the provenance of a guest's run.

use tardy_lab::atlas::Index;
use tardy_lab::atlas::index::INDEX_NAME;
use tardy_lab::provenance::{PROVENANCE_NAME, Provenance};
use tardy_results::history::{accept, accepted};

use crate::place;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let folder = place::folder();
    for name in [INDEX_NAME, PROVENANCE_NAME, "accepted.json"] {
        place::write(&folder.path().join(name), bytes);
    }
    if let Ok(Some(index)) = Index::read(folder.path()) {
        let cells: usize = (0..index.grid.variants.len())
            .flat_map(|variant| (0..index.grid.replicas).map(move |replica| (variant, replica)))
            .map(|(variant, replica)| index.cells_of(variant, replica).count())
            .sum();
        assert_eq!(cells, index.cells());
    }
    if let Ok(Some(provenance)) = Provenance::read(folder.path()) {
        assert!(provenance.same_result(&provenance));
    }
    if let Ok(builds) = accepted(folder.path()) {
        accept(folder.path(), &["another".to_owned()]).expect("a read list can be written");
        let with_another = accepted(folder.path()).expect("written data can be read");
        assert!(builds.is_subset(&with_another) && with_another.contains("another"));
    }
}
