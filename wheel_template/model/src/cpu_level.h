// src/cpu_level.h - which CPU levels this machine can run.
#pragma once

namespace modelwheel {

/// Whether this CPU, and the operating system on it, can run code compiled for the level called `name`
/// ("x86-64-v3", "armv8-a", ...). False for names that are unknown or of another architecture.
bool cpu_supports(const char *name);

}  // namespace modelwheel
