// src/cpu_level.h - the CPU levels that this machine supports.
#pragma once

namespace modelwheel {

/// Whether this CPU and its operating system can run code compiled for a level ("x86-64-v3", "armv8-a", ...).
/// False for unknown names and for levels of other architectures.
bool cpu_supports(const char *name);

}  // namespace modelwheel
