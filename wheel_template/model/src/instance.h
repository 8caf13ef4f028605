// src/instance.h - what an instance consists of; create.cpp makes it, model.cpp runs it.
#pragma once

#include "batching.h"
#include "memory.h"
#include "program.h"
#include "rules.h"
#include "staging.h"
#include "state.h"

struct modelwheel_model {
  const modelwheel::Level *level;
  char *arena;  // aligned; shared by all batch sizes, which run one after the other
  modelwheel::State state;
  const void **inputs;  // buffers of the running variant: inputs, then the state
  void **outputs;
  const modelwheel::Variant *variants;  // of the running length
  modelwheel::CallLengths lengths;
  modelwheel::BatchPlanner planner;
  modelwheel::Strategy strategy;
  modelwheel::BatchRules rules;
  void *owned;        // what `destroy` frees: the instance itself; null if its memory is the caller's
  void *owned_rules;  // the same for rules that have outgrown it
  modelwheel::Threads threads;
  std::size_t scratch_bytes;  // of threads.scratch
  void *owned_scratch;        // where that was allocated
  char error[256];
};

namespace modelwheel {

static_assert(sizeof(modelwheel_model) <= kHeadBytes, "raise kHeadBytes");

/// The variants of the largest length, which are all variants of models without lengths.
inline const Variant *largest_variants(const Level &level) {
  return level.variants + (api.num_lengths == 0 ? 0 : (api.num_lengths - 1) * api.num_batch_sizes);
}

/// Memory of the C library, null where there is none; a library in which MODELWHEEL_STATIC_ARENA is defined uses none.
/// Where all uses need many of the bytes, its pages are large if the system has such.
void *allocate(std::size_t bytes, std::size_t used);
void release(void *memory);

}  // namespace modelwheel
