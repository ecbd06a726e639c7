//! "Did you mean ...?"

/// The one of `known` that `name` was most likely meant to be, if any looks like it.
pub(crate) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    const ALIKE: f64 = 0.6;
    let name = name.to_ascii_lowercase();
    known
        .map(|candidate| {
            (
                strsim::normalized_damerau_levenshtein(&name, candidate),
                candidate,
            )
        })
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
