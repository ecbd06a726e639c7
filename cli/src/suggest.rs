//! "Did you mean": the known word that looks most like what was typed.

/// The known word nearest to `word`, if one is near enough to be meant.
pub(crate) fn nearest<'a, S: AsRef<str>>(word: &str, known: &'a [S]) -> Option<&'a str> {
    const NEAR: f64 = 0.75;
    let likeness = |candidate: &&str| strsim::jaro_winkler(&word.to_lowercase(), candidate);
    known
        .iter()
        .map(AsRef::as_ref)
        .filter(|candidate| likeness(candidate) >= NEAR)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// `did you mean `x`? `, or nothing.
pub(crate) fn did_you_mean<S: AsRef<str>>(word: &str, known: &[S]) -> String {
    nearest(word, known).map_or(String::new(), |near| format!("did you mean `{near}`? "))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_nonsense_is_not() {
        let known = ["bench", "imix", "latency"];
        assert_eq!(nearest("bnech", &known), Some("bench"));
        assert_eq!(nearest("latencies", &known), Some("latency"));
        assert_eq!(nearest("IMIX", &known), Some("imix"));
        assert_eq!(nearest("qqq", &known), None);
        assert_eq!(did_you_mean("qqq", &known), "");
    }
}
