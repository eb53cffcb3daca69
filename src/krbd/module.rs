//! The kernel module: whether it is there, and loading it.

use std::process::Command;

use super::Krbd;
use super::failure::Stage;
use crate::error::{Error, ErrorKind, Result};

/// Whether the kernel has the rbd driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum ModuleState {
    /// There is no rbd bus: the module is not loaded, and nothing can be mapped.
    NotLoaded,
    /// It was loaded.
    Loaded {
        /// Whether all devices share one major number (the module's parameter); `None` where it does not say.
        single_major: Option<bool>,
    },
    /// It is part of the kernel.
    BuiltIn {
        /// As with `Loaded`.
        single_major: Option<bool>,
    },
}

impl Krbd {
    /// Whether the kernel has the rbd driver.
    pub fn module(&self) -> ModuleState {
        let single_major = self.sysfs.single_major();
        if !self.sysfs.bus().is_dir() {
            ModuleState::NotLoaded
        } else if self.sysfs.module().join("initstate").exists() {
            ModuleState::Loaded { single_major }
        } else {
            ModuleState::BuiltIn { single_major }
        }
    }

    /// Loads the module if it is not there, by running `modprobe rbd`: the one thing here that runs a program. Nothing
    /// else calls it.
    ///
    /// It takes as long as modprobe does.
    ///
    /// # Errors
    ///
    /// `ModuleNotLoaded`, with what modprobe said: it failed, is not installed, or there is still no rbd bus.
    pub fn load_module(&self) -> Result<()> {
        if self.module() != ModuleState::NotLoaded {
            return Ok(());
        }
        let failed =
            || Error::new(ErrorKind::ModuleNotLoaded, "load kernel module").with_object("rbd").at(Stage::Module);
        let output = Command::new("modprobe").arg("rbd").output();
        // Whatever is known of modprobe: a program that ignores SIGCHLD is not told how it ended.
        if self.module() != ModuleState::NotLoaded {
            return Ok(());
        }
        let output = output.map_err(|error| failed().with_source(error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(failed().with_hint(format!("modprobe: {said}")));
        }
        Err(failed().with_hint("modprobe succeeded and there is no rbd bus here"))
    }
}
