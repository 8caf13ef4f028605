// src/state.h - what calls of a model change: two copies of it in each instance.
#pragma once

#include <cstddef>

#include "modelwheel/abi.h"

namespace modelwheel {

/// The state of one instance. A run works on a copy, which takes the place of the state once it has succeeded: a run
/// that fails leaves the state as it was.
class State {
 public:
  /// Memory for two copies, at a multiple of MODELWHEEL_ALIGNMENT; see state_bytes.
  void use_memory(char *memory);
  /// To what it is before the first call.
  void reset();
  void copy(const State &other);
  /// Copies tensors out of or into the state; a null buffer leaves one out.
  void read(void *const *buffers) const;
  void write(const void *const *buffers);

  /// Copies the state for a run, and fills one pointer for each tensor of it.
  void begin_run(const void **pointers);
  /// Keeps what the run has made of the copy.
  void end_run();

 private:
  char *current_ = nullptr;
  char *next_ = nullptr;
};

/// The state of an instance.
State &state_of(modelwheel_model *model);
const State &state_of(const modelwheel_model *model);

/// Writes the sentence of an instance's failure; returns `status`.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
modelwheel_status fail(modelwheel_model *model, modelwheel_status status, const char *format, ...);

}  // namespace modelwheel
