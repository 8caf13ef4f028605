// src/program.h - the tables that the generated files hand to the runtime, and what these files may call.
//
// Each CPU level has one generated file, program_LEVEL.cpp, with one straight-line function for each batch size. These
// functions call XLA's compiled kernels, and the hand-written ones in kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/parts/threads.h"
#include "modelwheel/abi.h"

namespace modelwheel {

/// In a table of staging offsets: an input that the code does not take.
inline constexpr std::size_t ignored_input = SIZE_MAX;

/// One batch size compiled for one CPU level.
struct Variant {
  std::size_t batch_size;
  /// Bytes of working memory: random states, temporaries, kernel scratch, staging copies.
  std::size_t arena_bytes;
  /// Offset in the arena for each input, to which it is copied if the caller's buffer cannot be used in place.
  const std::size_t *input_staging;
  /// The same for each output.
  const std::size_t *output_staging;
  /// Estimated or measured cost of one run, in nanoseconds; only ratios matter.
  double cost;
  /// Runs the program. All pointers are multiples of MODELWHEEL_ALIGNMENT. After the inputs come the tensors of the
  /// state, which it changes; where it failed they are undefined. False if a kernel failed.
  /// Only the first `rows` rows of results must be there afterwards, at most batch_size.
  bool (*run)(const void *const *inputs, void *const *outputs, char *arena, const Threads &threads, std::int64_t rows);
  /// Bytes of scratch memory that each part of a step needs, for threads; 0 if no step is worth dividing.
  std::size_t part_bytes;
  /// The part of the cost that threads can share, from 0 to 1.
  double shared;
  /// The part of the cost that grows with the rows of a run, from 0 to 1.
  double partial;
  /// For each input whether rows that a run does not compute are read all the same, so that they must not be left as
  /// they are; null if those of all inputs are.
  const bool *reads_all_rows;

  /// Cost of a run that computes the first rows.
  constexpr double cost_of(std::size_t rows) const {
    return cost * (1.0 - partial * static_cast<double>(batch_size - rows) / static_cast<double>(batch_size));
  }
};

/// One CPU level; `variants` has one element for each batch size, ascending, and this for each length, ascending.
struct Level {
  const char *name;
  const Variant *variants;
};

// `modelwheel audit` finds the code of each level in finished libraries by reading these two structs from their bytes.
// pipeline/modelwheel/audit/machine_code/levels.py has the same numbers; a test compares them with these lines.
static_assert(offsetof(Level, name) == 0, "see audit/machine_code/levels.py");
static_assert(offsetof(Level, variants) == 8, "see audit/machine_code/levels.py");
static_assert(offsetof(Variant, batch_size) == 0, "see audit/machine_code/levels.py");
static_assert(offsetof(Variant, run) == 40, "see audit/machine_code/levels.py");
static_assert(sizeof(Variant) == 80, "see audit/machine_code/levels.py");

/// How a constant is stored in the library.
enum class StoredAs { kPlain, kFloat16, kInt8 };

/// One constant of a library whose weights are stored in fewer bytes than they take.
struct StoredConstant {
  StoredAs as;
  /// Where it is in the expanded weights and in the stored ones.
  std::size_t offset, place;
  /// Elements; bytes of a plain one.
  std::size_t count;
  /// Of 8-bit integers: where the scales are, the number of consecutive elements with the same scale, and of scales.
  std::size_t scales, inner, channels;
};

/// Model-specific data that is not part of the public table.
struct Tables {
  /// As many as modelwheel_api::num_levels, lowest first.
  const Level *levels;
  /// Number of 128-bit random states at the start of the arena, one for each thunk that draws random numbers.
  std::size_t random_states;
  /// "cheapest" or "smallest".
  const char *strategy;
  /// The batch rules of the spec, in the form of modelwheel_api::set_batch_rule.
  const char *const *rules;
  std::size_t num_rules;
  /// For each input the element that it is padded with, null where it has no lengths; null for models without lengths.
  const void *const *pads = nullptr;
  /// For each tensor of the state, the offset in the weights of its value before the first call.
  const std::size_t *first_state = nullptr;
  /// Constants that are expanded when the library is loaded, from where to where, and whether it has happened.
  const StoredConstant *stored = nullptr;
  std::size_t num_stored = 0;
  const char *stored_weights = nullptr;
  char *expanded = nullptr;
  bool *is_expanded = nullptr;
};

extern const Tables tables;
extern const modelwheel_api api;

/// All constants of all variants, each distinct one once, as they are stored; see weights.c.
extern "C" const char modelwheel_weights[];

/// The same as the code reads them, in libraries that store them in another form.
extern "C" char modelwheel_expanded_weights[];

/// Initial value of every random state (XLA's RngState, in xla/backends/cpu/runtime).
inline constexpr std::uint64_t kInitialRandomState = 0x7012395;

// --- the calling convention of XLA's kernels (xla/backends/cpu/runtime/kernel_c_api.h) --------------------

struct WorkGroups {
  std::uint64_t x, y, z;
};

struct KernelArgument {
  void *data;
  std::size_t size;
};

struct KernelFrame {
  const WorkGroups *count;
  const WorkGroups *id;
  std::size_t num_arguments;
  const KernelArgument *arguments;
};

/// Returns null on success.
using Kernel = void *(const KernelFrame *frame);

/// Compares elements for a sort: params holds {&a0, &b0, &a1, &b1, ...}; the other pointers may be null.
using Comparator = void(bool *result, const void *options, const void **params, const void *buffers, const void *status,
                        const void *profile);

}  // namespace modelwheel
