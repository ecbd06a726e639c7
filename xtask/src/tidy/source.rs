//! Rust sources without their comments and texts, for rules that look for words in code.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// One source file.
pub(super) struct Source {
    /// Its path from the workspace's folder.
    pub(super) name: String,
    /// Its code: comments and the insides of texts are blanks, lines are where they were.
    code: String,
}

impl Source {
    /// The file `name` with `text` in it.
    pub(super) fn new(name: String, text: &str) -> Self {
        Self {
            name,
            code: blank(text),
        }
    }

    /// Every Rust source of the workspace that is not a build's product.
    pub(super) fn all(root: &Path) -> Result<Vec<Self>> {
        let mut sources = Vec::new();
        collect(root, root, &mut sources)?;
        sources.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(sources)
    }

    /// Lines with their numbers, from 1.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// How many lines it has.
    pub(super) fn line_count(&self) -> usize {
        self.code.lines().count()
    }
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(root, &path, sources)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            sources.push(Source::new(name, &text));
        }
    }
    Ok(())
}

/// Whether `word` stands in `line` as a word of its own.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// `text` with comments, texts and characters blanked out.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word_before = code
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else if first == '"' {
            quoted(rest)
        } else if !word_before && let Some(length) = raw(rest) {
            length
        } else if first == '\''
            && let Some(length) = character(rest)
        {
            length
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(
            rest[..length]
                .chars()
                .map(|c| if c == '\n' { '\n' } else { ' ' }),
        );
        rest = &rest[length..];
    }
    code
}

/// The length of a block comment, those inside it included.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a quoted text.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == '"' {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a raw text, if one begins here.
fn raw(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = inside.len() - inside.trim_start_matches('#').len();
    let inside = inside[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inside.len();
    Some(
        inside
            .find(&end)
            .map_or(text.len(), |at| start + at + end.len()),
    )
}

/// The length of a character, if this is one and no lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first != '\\' {
        let (at, second) = chars.next()?;
        return (second == '\'').then_some(at + 1);
    }
    chars.next()?;
    chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn comments_and_texts_are_blank_and_lines_stay() {
        let text = "a /* b /* c */ d\n */ e // f\n\"g\\\"\nh\" i r#\"j\"k\"# l 'm' '\\'' '\"' n<'o>(\"p\")";
        let code = blank(text);
        assert_eq!(code.lines().count(), text.lines().count());
        let left: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        assert_eq!(left, "aeiln<'o>()");
    }

    #[test]
    fn a_word_is_no_part_of_a_longer_one() {
        assert!(has_word("pub unsafe fn f()", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
