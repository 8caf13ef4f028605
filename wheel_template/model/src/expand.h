// src/expand.h - weights that are stored in fewer bytes than they take at run time.
#pragma once

namespace modelwheel {

/// Writes the weights that the code reads, as float32 values, from those in the library. The generated tables call it
/// when the library is loaded; instances that are created before, by initialisers of the same program, call it too.
/// Returns true.
bool expand_weights();

}  // namespace modelwheel
