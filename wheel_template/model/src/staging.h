// src/staging.h - the arrays of a call in the form that compiled code takes: aligned, of whole batches and of a
// compiled length. What already has this form is used in place, anything else is copied to the arena.
#pragma once

#include <cstddef>

#include "modelwheel/abi.h"
#include "program.h"

namespace modelwheel {

/// The lengths of one call; both 0 for models that have none.
struct CallLengths {
  /// Of the caller's arrays.
  std::size_t given = 0;
  /// Of the code that runs: the smallest compiled length that is not below `given`.
  std::size_t compiled = 0;
};

/// Index of the smallest compiled length that is not below `length`; num_lengths if there is none.
std::size_t find_length(std::size_t length);

/// Rows of a call that one variant runs: `rows` <= variant.batch_size, after the first `done` of the `total` rows of
/// the caller's arrays.
struct Chunk {
  const Variant &variant;
  const CallLengths &lengths;
  char *arena;
  std::size_t done, rows, total;
};

/// The caller's inputs: dense buffers, or views.
struct Sources {
  const void *const *buffers;
  const modelwheel_view *views;  // in place of them, if not null

  /// A view that says more than where a dense buffer is; null for all others.
  const modelwheel_view *view(std::size_t index) const {
    const bool dense = views == nullptr || (views[index].strides == nullptr && views[index].columns == nullptr);
    return dense ? nullptr : views + index;
  }
  const void *buffer(std::size_t index) const { return views == nullptr ? buffers[index] : views[index].data; }
  bool is_null(std::size_t index) const {
    if (views == nullptr) return buffers == nullptr || buffers[index] == nullptr;
    return views[index].data == nullptr && views[index].columns == nullptr;
  }
};

/// Fills the pointers of the inputs: the caller's memory where it can be used in place, else a copy.
void bind_inputs(const Chunk &chunk, const Sources &inputs, const void **bound);

/// Fills the pointers of the outputs: the caller's memory where it can be used in place, else memory in the arena.
void bind_outputs(const Chunk &chunk, void *const *outputs, void **bound);

/// Copies the outputs that are in the arena to the caller.
void copy_staged_outputs(const Chunk &chunk, void *const *bound, void *const *outputs);

}  // namespace modelwheel
