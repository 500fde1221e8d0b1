//! `--config` and one flag per setting: what every command takes that needs the configuration.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{CommandError, Surroundings};
use crate::config::Config;
use crate::config::setting::{Exposure, Fallback, SETTINGS, Setting};

/// The configuration's file and flags.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// The configuration file, TOML; environment variables and flags beat it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
}

impl ConfigArguments {
    /// Gathers and checks the configuration.
    ///
    /// # Errors
    /// [`CommandError::Config`] with every fault.
    pub fn load(self, surroundings: &Surroundings<'_>) -> Result<Config, CommandError> {
        let environment = surroundings.environment.iter().cloned();
        Config::load(self.config.as_deref(), environment, self.settings.0).map_err(CommandError::Config)
    }
}

/// The settings given as flags, by key. Secrets have none: other users see a process's arguments.
#[derive(Debug)]
struct SettingFlags(Vec<(String, String)>);

fn flags() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.exposure == Exposure::Open)
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let argument = |setting: &'static Setting| {
            let heading = "Settings (each also an environment variable and a key of the file)";
            let help = match setting.default {
                Fallback::Text(text) => format!("{} [default: {text}]", setting.help),
                Fallback::Unset | Fallback::PerEnvironment { .. } => setting.help.to_owned(),
            };
            Arg::new(setting.key).long(setting.key).value_name("VALUE").help(help).help_heading(heading)
        };
        flags().fold(command, |command, setting| command.arg(argument(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &Setting| Some((setting.key.to_owned(), matches.get_one::<String>(setting.key)?.clone()));
        Ok(Self(flags().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
