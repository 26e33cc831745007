//! `ostler config show|path|validate`: what the configuration is, where it comes from, and everything that is wrong with it.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Report};
use super::settings::{self, Settings, SettingsError, file, keys};
use super::text;
use crate::rpc::error::{ErrorCode, WireError};

/// Show and check the configuration
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the effective values
    Show {
        /// Print where each value comes from
        #[arg(long)]
        origin: bool,
    },
    /// Print the files that are read, lowest layer first
    Path,
    /// Check all files and variables; exit 2 if anything is wrong
    Validate,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match args.command {
        Command::Show { origin } => show(origin, context),
        Command::Path => path(context),
        Command::Validate => validate(context),
    }
}

fn show(origin: bool, context: &Context) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    if context.output.json {
        context.output.document(&document(&settings, origin))?;
        return Ok(Exit::Done);
    }
    let mut shown = String::new();
    for key in &keys::KEYS {
        // What no layer sets is shown as the comment that it would be in a file.
        let line = match settings.get(key.name) {
            Some(value) => format!("{} = \"{}\"", key.name, value.text),
            None => format!("# {}", key.name),
        };
        let from = settings.get(key.name).map(|value| value.origin.to_string());
        match from {
            Some(from) if origin => shown.push_str(&format!("{line}  # {}\n", text::plain(&from))),
            Some(_) | None => shown.push_str(&format!("{line}  # {}\n", key.help)),
        }
    }
    context.output.text(&shown)?;
    Ok(Exit::Done)
}

/// `{"values":{KEY:TEXT|null},"origins":{KEY:TEXT|null}}`, the second with `--origin` only.
fn document(settings: &Settings, origin: bool) -> Value {
    let mut values = Map::new();
    let mut origins = Map::new();
    for key in &keys::KEYS {
        let value = settings.get(key.name);
        values.insert(key.name.to_owned(), json!(value.map(|value| &value.text)));
        origins.insert(key.name.to_owned(), json!(value.map(|value| value.origin.to_string())));
    }
    let mut document = json!({ "values": values });
    if origin {
        document["origins"] = Value::Object(origins);
    }
    document
}

fn path(context: &Context) -> Result<Exit, Failure> {
    let places = context.places();
    let rows = places.all().into_iter().map(|(layer, path)| (layer, path.to_owned(), path.exists()));
    if context.output.json {
        let file = |(layer, path, exists): (&str, std::path::PathBuf, bool)| json!({ "layer": layer, "path": path.to_string_lossy(), "exists": exists });
        context.output.document(&json!({ "files": rows.map(file).collect::<Vec<_>>() }))?;
        return Ok(Exit::Done);
    }
    let mut table = text::Table::new(["LAYER", "FILE", ""]);
    for (layer, path, exists) in rows {
        let state = if exists { "" } else { "(absent)" };
        table.row([layer.to_owned(), text::plain(&path.to_string_lossy()), state.to_owned()]);
    }
    context.output.text(&table.render())?;
    Ok(Exit::Done)
}

fn validate(context: &Context) -> Result<Exit, Failure> {
    let mut problems = Vec::new();
    for (_, path) in context.places().all() {
        match file::read(path) {
            Ok(None) => {}
            Ok(Some(text)) => problems.extend(file::parse(path, &text).err().unwrap_or_default()),
            Err(error) => problems.push(error),
        }
    }
    problems.extend(settings::from_environment(&context.environment).err());
    let remedy = problems.first().map(SettingsError::remedy).unwrap_or_default();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if problems.is_empty() {
        let document = json!({ "ok": true, "problems": problems });
        context.output.either(&document, |_| "the configuration is valid\n".to_owned())?;
        return Ok(Exit::Done);
    }
    let error =
        WireError::new(ErrorCode::InvalidInput, problems.join("; ")).reason("config").with("problems", problems);
    let error = error.with("remedy", remedy);
    context.output.error(&Report { attempt: "use the configuration".to_owned(), session: None, key: None, error })?;
    Ok(Exit::Usage)
}
