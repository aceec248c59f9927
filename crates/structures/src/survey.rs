//! Checks the whole content of a pool for consistency.

use std::rc::Rc;

use stonecast_base::Span;

use crate::backend::{DomainError, Execute, Medium, StructurePool, Territory};
use crate::executor::Executor;
use crate::shapes::{Audit, Named, ReadRoots, drive};
use crate::wire::DomainName;

/// A lock domain, as [`survey`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedDomain {
    /// The number of the domain.
    pub number: u32,
    /// The name of the domain, if it can be read.
    pub name: Option<DomainName>,
    /// The structures of the domain, with the number and the bytes of their entries.
    pub structures: Vec<(Named, u64, u64)>,
    /// Units of 64 bytes that the domain's blocks use.
    pub units: u64,
    /// The damage, if any, in words.
    pub damage: Option<String>,
}

/// Opens a pool as a back-end does, and walks over everything: each structure is whole, and each unit of the slabs is
/// free or belongs to one block. The pool should be a copy, since opening a pool changes it. Reports to `watch` the
/// number of bytes read since the last report; most bytes are read twice.
///
/// # Errors
/// [`DomainError`]: the pool cannot be opened. Damage of a domain is part of the result.
pub async fn survey(
    medium: Rc<Medium>,
    watch: &mut dyn FnMut(u64),
) -> Result<Vec<SurveyedDomain>, DomainError> {
    let key = medium.key;
    let mut executor = |place, territory: &Territory| {
        Box::new(Executor::new(key, place, territory.clone())) as Box<dyn Execute>
    };
    let mut pool = StructurePool::open(medium.clone(), &mut executor).await?;
    let mut domains = Vec::new();
    for number in 0..pool.geometry().domains {
        let name = pool.name_of(number);
        let damage = pool.damage(number).map(ToString::to_string);
        let territory = pool.domain(number).map(|domain| domain.territory().clone());
        if damage.is_none() && territory.is_none() {
            continue;
        }
        let mut found = SurveyedDomain {
            number,
            name,
            structures: Vec::new(),
            units: 0,
            damage,
        };
        if let Some(territory) = territory {
            found.damage = walk(&medium, &territory, &mut found, watch).err();
            if name.is_none() {
                found.damage.get_or_insert("the name is damaged".to_owned());
            }
        }
        domains.push(found);
    }
    Ok(domains)
}

fn walk(
    medium: &Medium,
    territory: &Territory,
    found: &mut SurveyedDomain,
    watch: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let mut read = |span: Span| {
        watch(span.size);
        let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
        territory.holds(span).then(|| {
            medium.bytes().read(span.offset, &mut bytes);
            bytes.truncate(span.size as usize);
            bytes
        })
    };
    let roots = ReadRoots::new(medium.key, found.number, territory.root);
    let roots = drive(roots, &mut read).map_err(|stale| stale.to_string())?;
    for row in roots.rows() {
        let of = |fault: String| format!("structure {:?}: {fault}", row.name);
        let structure = roots.structure(row.number).expect("it has a row");
        let contents = structure.contents(&mut read);
        let contents = contents.map_err(|stale| of(stale.to_string()))?;
        if contents.length != contents.items.len() as u64 {
            let (counted, held) = (contents.length, contents.items.len());
            return Err(of(format!("it counts {counted} entries and holds {held}")));
        }
        let bytes = contents.items.iter();
        let bytes = bytes
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum();
        found.structures.push((row.clone(), contents.length, bytes));
    }
    let (geometry, slabs) = (territory.geometry, territory.slabs.iter().copied());
    let audit = Audit::of(&roots, geometry, slabs, &mut read).map_err(|stale| stale.to_string())?;
    found.units = audit.units;
    match audit.is_sound() {
        true => Ok(()),
        false => Err(format!(
            "{} units belong to two blocks, {} to none, and {} are marked as free and are used",
            audit.twice, audit.lost, audit.unmarked
        )),
    }
}
