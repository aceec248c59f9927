//! Circles of imports between the files of a crate.
//!
//! A file imports another one if its code names an item that the other file defines. A re-export that the file itself
//! does not use is no import. A component whose parts have files of their own forms a circle with them: the parts name
//! the component, which has them as fields. A larger circle means that no file of it can be read alone. Only code
//! counts, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::lexer::{word, words};

/// The most files of a circle: a component and two parts.
const FILES_MAX: usize = 3;
/// Crates that the rule leaves out: the laboratory, whose figures and scenarios name the tables that list them.
const LEFT_OUT: &[&str] = &["check", "lab", "published", "replication-sim", "xtask"];
/// The files of the largest circle, for each other crate that has a larger one. The numbers only go down.
const LARGER: &[(&str, usize)] = &[
    // The commands of one key, and the flags that they share.
    ("cli", 4),
    // The table of stories, and the stories.
    ("fabric", 5),
    // The device's state and its verbs; helpers of tests that end processes.
    ("fabric-shm", 6),
    // The network and the parts of a NIC; the list of profiles, and the profiles.
    ("fabric-sim", 6),
    // The device's state and its verbs.
    ("fabric-verbs", 4),
    // The commands, their arguments, and the values that they change.
    ("gateway", 19),
    // A record and the batch that it may bring; a segment and its seals.
    ("log", 5),
    // A pool and the parts of its header.
    ("media", 6),
    // The state of a node, and the rules over it.
    ("node", 14),
    // The connector, the clients that it makes, and their errors.
    ("stonecast", 16),
    // The shapes.
    ("structures", 28),
];

/// Two modules of a crate that once imported each other in a circle, each with all files below it. No circle may have
/// a file of both, however small the circle is.
const GONE: &[(&str, [&str; 2])] = &[
    ("cli", ["arguments", "commands"]),
    ("fabric-sim", ["memory", "net::responder"]),
    ("fabric-sim", ["net", "world"]),
    ("gateway", ["commands::run", "connection"]),
    ("kv", ["index::table", "wire::word"]),
    ("media", ["dax", "directory"]),
];

/// Names of a file in the tree of modules of its crate.
type Module = Vec<String>;

/// Returns every circle of the crate with the name `role` that is too large, as `file:1: sentence`, and the exception
/// of the crate if its largest circle is smaller. `sources` are the files of the crate, with the code of the product in
/// each.
pub fn findings(role: &str, sources: &[(PathBuf, String)]) -> Vec<String> {
    if LEFT_OUT.contains(&role) {
        return Vec::new();
    }
    let files = Files::read(sources);
    let circles = files.circles();
    let exception = LARGER.iter().find(|(of, _)| *of == role);
    let bound = exception.map_or(FILES_MAX, |&(_, bound)| bound);
    let largest = circles.iter().map(BTreeSet::len).max().unwrap_or(0);
    let too_large = circles.iter().filter(|circle| circle.len() > bound);
    let breach = |circle: &BTreeSet<&Module>| {
        let first = circle.first().expect("a circle has files");
        let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
        format!(
            "{}:1: {} files import one another in a circle, and {bound} are the most: {}; take the part that both sides need into a file of its own",
            files.0[*first].path.display(),
            circle.len(),
            names.join(", ")
        )
    };
    let mut findings: Vec<_> = too_large.map(breach).collect();
    if exception.is_some() && largest < bound {
        findings.push(format!(
            "xtask/src/circles.rs:1: the largest circle of {role} has {largest} files; lower its bound"
        ));
    }
    let gone = GONE.iter().filter(|(of, _)| *of == role);
    findings.extend(gone.filter_map(|(_, pair)| gone_fault(*pair, &files, &circles)));
    findings
}

/// The fault of a pair of modules between which no circle may be: a circle with a file of both, or a module that the
/// crate does not have, so that the rule would hold for nothing.
fn gone_fault(pair: [&str; 2], files: &Files, circles: &[BTreeSet<&Module>]) -> Option<String> {
    let is_in = |module: &Module, name: &str| {
        let mut parts = name.split("::").zip(module);
        name.split("::").count() <= module.len() && parts.all(|(name, part)| name == part)
    };
    let lacking = pair
        .iter()
        .find(|name| !files.0.keys().any(|module| is_in(module, name)));
    if let Some(name) = lacking {
        return Some(format!(
            "xtask/src/circles.rs:1: no file is in the module {name}; name the module that has its files now"
        ));
    }
    let circle = circles.iter().find(|circle| {
        pair.iter()
            .all(|name| circle.iter().any(|module| is_in(module, name)))
    })?;
    let first = circle.first().expect("a circle has files");
    let [one, other] = pair;
    Some(format!(
        "{}:1: {one} and {other} import one another in a circle again; take the part that both sides need into a file of its own",
        files.0[*first].path.display()
    ))
}

/// The files of a crate.
struct Files(BTreeMap<Module, File>);

/// The items that one file defines, and the names that it uses.
struct File {
    path: PathBuf,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in the code outside of imports.
    mentions: BTreeSet<Vec<String>>,
}

/// One name of a `use`.
struct Import {
    path: Vec<String>,
    /// The name in the file; `*` for all names.
    name: String,
    /// Whether the file itself does not use the name.
    is_passed_on: bool,
}

impl Files {
    fn read(sources: &[(PathBuf, String)]) -> Self {
        let mut files = BTreeMap::new();
        for (path, code) in sources {
            if let Some(module) = module_of(path) {
                files
                    .entry(module)
                    .or_insert_with(|| File::read(path, code));
            }
        }
        Self(files)
    }

    /// The circles of more than one file.
    fn circles(&self) -> Vec<BTreeSet<&Module>> {
        let edges: BTreeMap<&Module, BTreeSet<&Module>> = self
            .0
            .keys()
            .map(|module| (module, self.imported_by(module)))
            .collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = edges
            .keys()
            .map(|&module| (module, reached_from(module, &edges)))
            .collect();
        let mut circles: Vec<BTreeSet<&Module>> = Vec::new();
        for (&module, from_here) in &reached {
            let is_known = circles.iter().any(|circle| circle.contains(module));
            if is_known || !from_here.contains(module) {
                continue;
            }
            let others = from_here.iter().copied();
            circles.push(
                others
                    .filter(|other| reached[other].contains(module))
                    .collect(),
            );
        }
        circles
    }

    /// The files that define something that the file of `module` names.
    fn imported_by(&self, module: &Module) -> BTreeSet<&Module> {
        let file = &self.0[module];
        let imports = file.imports.iter().filter(|import| !import.is_passed_on);
        let paths = imports.map(|import| &import.path).chain(&file.mentions);
        let absolute = paths.filter_map(|path| self.absolute(module, path, 0));
        let defining = absolute.filter_map(|path| self.defining(&path, 0));
        defining.filter(|other| *other != module).collect()
    }

    /// The path from the root of the crate; `None`: the path leads to another crate.
    fn absolute(&self, module: &Module, path: &[String], depth: u32) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut base = module.clone();
        match &**first {
            "crate" => return Some(rest.to_vec()),
            "self" => return Some([&module[..], rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                base.truncate(module.len().checked_sub(ups)?);
                return Some([&base[..], &path[ups..]].concat());
            }
            _ => base.push(first.clone()),
        }
        if self.0.contains_key(&base) {
            return Some([&base[..], rest].concat());
        }
        let import = self.0[module].import(first)?;
        if depth > 8 || rest.is_empty() || import.path == path {
            return None;
        }
        let through = self.absolute(module, &import.path, depth + 1)?;
        Some([&through[..], rest].concat())
    }

    /// The file that defines the item at `path`. A path to a file itself names no item.
    fn defining(&self, path: &[String], depth: u32) -> Option<&Module> {
        let ends = (0..=path.len()).rev();
        let mut known =
            ends.filter_map(|end| self.0.get_key_value(&path[..end]).map(|found| (end, found)));
        let (end, (module, file)) = known.next()?;
        let (name, rest) = path[end..].split_first()?;
        if file.items.contains(name) || depth > 8 {
            return Some(module);
        }
        if let Some(import) = file.import(name) {
            let through = self.absolute(module, &import.path, depth)?;
            return self.defining(&[&through[..], rest].concat(), depth + 1);
        }
        let everything = file.imports.iter().filter(|import| import.name == "*");
        let mut sources = everything.filter_map(|import| {
            let (_, path) = import.path.split_last()?;
            let path = self.absolute(module, path, depth)?;
            let (source, file) = self.0.get_key_value(&path)?;
            file.items.contains(name).then_some(source)
        });
        Some(sources.next().unwrap_or(module))
    }
}

/// All files that are reached from `module` by one import or more.
fn reached_from<'m>(
    module: &'m Module,
    edges: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        for other in &edges[module] {
            if reached.insert(*other) {
                next.push(other);
            }
        }
    }
    reached
}

impl File {
    fn read(path: &Path, code: &str) -> Self {
        let mut rest = String::new();
        let mut trees = Vec::new();
        let mut at = 0;
        for line in code.split_inclusive('\n') {
            let start = at;
            at += line.len();
            match use_of(line) {
                Some((is_public, offset)) => {
                    let tree = code[start + offset..].split(';').next().unwrap_or_default();
                    trees.push((is_public, tree, start..start + offset + tree.len()));
                }
                // The later lines of a `use` are no other code.
                None if trees.last().is_some_and(|(.., span)| span.contains(&start)) => {}
                None => rest.push_str(line),
            }
        }
        let used: BTreeSet<&str> = words(&rest).collect();
        let mut imports = Vec::new();
        for (is_public, tree, _) in trees {
            expand(tree, &[], &mut |path, name| {
                let is_passed_on = is_public && !used.contains(name);
                imports.push(Import {
                    path,
                    name: name.to_owned(),
                    is_passed_on,
                });
            });
        }
        Self {
            path: path.to_owned(),
            items: rest.lines().filter_map(item).map(str::to_owned).collect(),
            imports,
            mentions: paths(&rest),
        }
    }

    /// The import that gives the file this name.
    fn import(&self, name: &str) -> Option<&Import> {
        self.imports.iter().find(|import| import.name == name)
    }
}

/// The place of a file in the tree of modules; `None`: the file is not in `src`.
fn module_of(file: &Path) -> Option<Module> {
    let parts: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let src = parts.iter().rposition(|part| part == "src")?;
    let mut module = parts[src + 1..].to_vec();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    Some(module)
}

/// Whether `line` begins a `use`: whether the `use` is public, and the offset of its tree.
fn use_of(line: &str) -> Option<(bool, usize)> {
    let behind = line
        .strip_prefix("pub")
        .map(|rest| match rest.strip_prefix('(') {
            Some(restricted) => restricted.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        });
    let tree = behind.unwrap_or(line).trim_start().strip_prefix("use ")?;
    Some((behind.is_some(), line.len() - tree.len()))
}

/// Hands every name of a tree of a `use` to `note`, with its path.
fn expand(tree: &str, before: &[String], note: &mut impl FnMut(Vec<String>, &str)) {
    let tree = tree.trim();
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, group.rsplit_once('}').map(|(group, _)| group)),
        None => (tree, None),
    };
    let (head, alias) = head.split_once(" as ").unwrap_or((head, ""));
    let parts = head
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut path: Vec<String> = before.to_vec();
    path.extend(parts.map(str::to_owned));
    if let Some(group) = group {
        return branches(group)
            .into_iter()
            .for_each(|branch| expand(branch, &path, note));
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let Some(last) = path.last().cloned() else {
        return;
    };
    let name = if alias.is_empty() {
        &*last
    } else {
        alias.trim()
    };
    note(path, name);
}

/// The parts of a group of a `use`, which commas separate.
fn branches(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut branches) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&group[start..]);
    branches
}

/// The name of the item that `line` begins at the level of the file.
fn item(line: &str) -> Option<&str> {
    let kinds = [
        "struct",
        "enum",
        "trait",
        "type",
        "fn",
        "const",
        "static",
        "union",
        "macro_rules",
    ];
    let mut rest = line;
    loop {
        let first = word(rest);
        let behind = rest[first.len()..].trim_start_matches(['!', ' ']);
        rest = match first {
            "pub" => match behind.strip_prefix('(') {
                Some(restricted) => restricted.split_once(')')?.1.trim_start(),
                None => behind,
            },
            "const" if word(behind) == "fn" => behind,
            "async" | "unsafe" | "extern" => behind,
            kind if kinds.contains(&kind) => {
                let name = word(behind);
                return (!name.is_empty()).then_some(name);
            }
            _ => return None,
        };
    }
}

/// The paths of two names and more in `code`.
fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut paths = BTreeSet::new();
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let before = &rest[..at];
        let start = before
            .rfind(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .map_or(0, |found| {
                found + before[found..].chars().next().map_or(1, char::len_utf8)
            });
        let mut path = vec![before[start..].to_owned()];
        rest = &rest[at..];
        while let Some(behind) = rest.strip_prefix("::") {
            let name = word(behind);
            if name.is_empty() {
                rest = behind;
                break;
            }
            path.push(name.to_owned());
            rest = &behind[name.len()..];
        }
        if path.len() > 1 && !path[0].is_empty() {
            paths.insert(path);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::product_code;

    /// The circles of these files, each with its modules.
    fn circles(sources: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources = sources.iter();
        let sources: Vec<_> = sources
            .map(|(file, source)| (PathBuf::from(file), product_code(source)))
            .collect();
        let files = Files::read(&sources);
        let circles = files.circles().into_iter();
        let named = circles.map(|circle| circle.iter().map(|module| module.join("::")).collect());
        named.collect()
    }

    #[test]
    fn a_file_that_imports_what_its_part_has_closes_a_circle() {
        let sources = [
            ("w/src/lib.rs", "mod server;\npub use server::Server;\n"),
            (
                "w/src/server/mod.rs",
                "mod rule;\nuse rule::ends;\npub struct Server;\npub(crate) struct State;\n",
            ),
            (
                "w/src/server/rule.rs",
                "use std::rc::Rc;\nuse super::{\n    Server as _,\n    State,\n};\npub fn ends(_: &State) {}\n",
            ),
        ];
        assert_eq!(circles(&sources), [["server", "server::rule"]]);
    }

    #[test]
    fn a_path_in_the_code_is_an_import_and_a_test_is_none() {
        let by_path = |code: &str| {
            circles(&[
                ("w/src/a.rs", "use crate::b::f;\npub const fn g() { f() }\n"),
                ("w/src/b.rs", code),
            ])
        };
        assert_eq!(by_path("use crate::a;\npub fn f() { a::g() }\n").len(), 1);
        assert_eq!(by_path("pub fn f() { crate::a::g() }\n").len(), 1);
        let in_a_test = "pub fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::g;\n}\n";
        assert_eq!(by_path(in_a_test).len(), 0);
    }

    #[test]
    fn a_name_is_followed_to_the_file_that_defines_it_and_passing_it_on_is_no_import() {
        let sources = [
            (
                "w/src/a/mod.rs",
                "mod b;\nmod c;\npub use b::B;\npub use c::*;\n",
            ),
            ("w/src/a/b.rs", "use super::C;\npub struct B(C);\n"),
            ("w/src/a/c.rs", "pub struct C;\n"),
        ];
        assert_eq!(circles(&sources), [[""; 0]; 0]);
        let mut back = sources;
        back[2].1 = "use super::B;\npub struct C(B);\n";
        assert_eq!(circles(&back), [["a::b", "a::c"]]);
    }

    /// Files that import the next one each, and the last one the first.
    fn ring(count: usize) -> Vec<(PathBuf, String)> {
        let file = |at: usize| {
            let next = (at + 1) % count;
            let code = format!("use crate::m{next}::f{next};\npub fn f{at}() {{}}\n");
            (PathBuf::from(format!("w/src/m{at}.rs")), code)
        };
        (0..count).map(file).collect()
    }

    #[test]
    fn a_circle_of_a_fourth_file_is_found() {
        assert_eq!(findings("base", &ring(3)), [""; 0]);
        let found = findings("base", &ring(4));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("m0, m1, m2, m3"), "{found:?}");
    }

    #[test]
    fn a_small_circle_that_is_gone_from_its_crate_must_not_return() {
        let found = |word: &str| {
            let sources = [
                (
                    "kv/src/index/table.rs",
                    "use crate::wire::word::Word;\npub struct Table(Word);\n",
                ),
                ("kv/src/wire/word.rs", word),
            ];
            let sources = sources.map(|(file, code)| (PathBuf::from(file), code.to_owned()));
            findings("kv", &sources)
        };
        assert_eq!(found("pub struct Word;\n"), [""; 0]);
        let returned = found("use crate::index::table::Table;\npub struct Word(Table);\n");
        assert_eq!(returned.len(), 1);
        assert!(
            returned[0].contains("index::table and wire::word"),
            "{returned:?}"
        );
    }

    #[test]
    fn a_pair_of_modules_that_the_crate_no_longer_has_is_found() {
        let (role, _) = GONE[0];
        let pairs = GONE.iter().filter(|(of, _)| *of == role).count();
        let found = findings(role, &[]);
        let lacking = found
            .iter()
            .filter(|text| text.contains("no file is in the module"));
        assert_eq!(lacking.count(), pairs);
    }

    #[test]
    fn a_bound_that_a_crate_no_longer_needs_is_found() {
        let is_free = |role: &str| GONE.iter().all(|(of, _)| *of != role);
        let mut free = LARGER.iter().filter(|(role, _)| is_free(role));
        let &(role, bound) = free.next().expect("a crate without a circle that is gone");
        assert_eq!(findings(role, &ring(bound)), [""; 0]);
        assert_eq!(findings(role, &ring(bound + 1)).len(), 1);
        assert_eq!(findings(role, &ring(bound - 1)).len(), 1);
    }
}
