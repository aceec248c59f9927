//! An ordered index: orders by customer and number, read in order by another connection.

use stonecast::Durability;
use stonecast::structures::{BTree, Error, Server, connect};

/// Orders by customer and number.
type Orders = BTree<(String, u64), String>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .serve()?;
    let connection = connect(&server.address().to_string())?;
    connection.run(async |session| {
        let mut orders = session.writer::<Orders>("orders").await?;
        for (customer, number, what) in [("bo", 2, "glue"), ("al", 1, "pins"), ("bo", 1, "saw")] {
            // Staged updates are executed at once; they become durable and visible together.
            let key = (customer.to_owned(), number);
            let _ticket = orders.stage(&key, &what.to_owned()).await?;
        }
        orders.publish().await
    })?;
    let other = connect(&server.address().to_string())?;
    let of_bo = other.run(async |session| {
        let mut orders = session.reader::<Orders>("orders").await?;
        let (first, end) = (("bo".to_owned(), 0), ("bp".to_owned(), 0));
        let of_bo = orders.range(first..end).collect().await?;
        Ok::<_, Error>(of_bo)
    })?;
    let names: Vec<&str> = of_bo.iter().map(|(_, what)| &**what).collect();
    assert_eq!(names, ["saw", "glue"]);
    Ok(server.shutdown()?)
}
