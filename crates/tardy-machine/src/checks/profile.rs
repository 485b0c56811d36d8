//! Kinds of work that a machine does. A setting can be good for one kind and bad for another.

use serde::Serialize;

use super::Importance;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Tasks that sleep until they are due: control loops.
    #[default]
    Periodic,
    /// Tasks that each occupy a CPU and use no kernel services: packet processing in user space.
    Polling,
    /// Sound: tasks that the interrupt of a sound card wakes, on a desktop.
    Audio,
    /// Any of these tasks inside a virtual machine.
    VmGuest,
    /// A host of virtual machines that run real-time work.
    VmHost,
}

impl Profile {
    /// All profiles, in the order of the help.
    pub const ALL: [Self; 5] = [
        Self::Periodic,
        Self::Polling,
        Self::Audio,
        Self::VmGuest,
        Self::VmHost,
    ];

    /// Returns the profile's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::Polling => "polling",
            Self::Audio => "audio",
            Self::VmGuest => "vm-guest",
            Self::VmHost => "vm-host",
        }
    }

    /// Returns whether this kind of work never sleeps, so that the task or the virtual CPU always
    /// occupies its CPU.
    #[must_use]
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Polling | Self::VmHost)
    }
}

/// How important a check is for each profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    usual: Importance,
    others: &'static [(Profile, Importance)],
}

impl Weight {
    /// Creates a weight with the same importance for every profile.
    pub(super) const fn of(usual: Importance) -> Self {
        Self { usual, others: &[] }
    }

    /// Replaces the importance for some profiles.
    pub(super) const fn but(self, others: &'static [(Profile, Importance)]) -> Self {
        Self {
            usual: self.usual,
            others,
        }
    }

    /// Returns the importance for `profile`.
    #[must_use]
    pub fn importance(&self, profile: Profile) -> Importance {
        self.others
            .iter()
            .find(|(other, _)| *other == profile)
            .map_or(self.usual, |(_, importance)| *importance)
    }
}
