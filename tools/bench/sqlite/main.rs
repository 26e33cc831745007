//! The benchmark's program: it brings SQLite, in the way in which one would keep such a ledger in it.

use std::path::Path;
use std::process::ExitCode;

use ostler_bench::Store;
use rusqlite::Connection;

/// One table, one row a record; every transaction is synced.
struct Sqlite {
    connection: Connection,
    next: i64,
}

fn open(folder: &Path) -> Result<Box<dyn Store>, String> {
    let text = |error: rusqlite::Error| format!("SQLite: {error}");
    let connection = Connection::open(folder.join("ledger.sqlite")).map_err(text)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE record (seq INTEGER PRIMARY KEY, line BLOB NOT NULL);",
        )
        .map_err(text)?;
    Ok(Box::new(Sqlite { connection, next: 1 }))
}

impl Store for Sqlite {
    fn insert(&mut self, rows: &[&[u8]]) -> Result<(), String> {
        let mut next = self.next;
        let inserted = (|| {
            let transaction = self.connection.transaction()?;
            {
                let mut statement = transaction.prepare_cached("INSERT INTO record (seq, line) VALUES (?1, ?2)")?;
                for row in rows {
                    statement.execute((next, row))?;
                    next += 1;
                }
            }
            transaction.commit()
        })();
        self.next = next;
        inserted.map_err(|error: rusqlite::Error| format!("SQLite: {error}"))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match ostler_bench::run(&arguments, &open) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
