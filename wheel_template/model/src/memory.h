// src/memory.h - the memory of an instance: its parts in their order, and their sizes.
//
//     modelwheel_model | pointers of a run | batch rules | state | plan of batches | arena
//
// The sizes are constant expressions: programs can have memory of that size before they run. Those of the last two
// parts differ between levels, and only the file that is compiled for a level knows them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "batching.h"
#include "program.h"
#include "rules.h"

namespace modelwheel {

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + MODELWHEEL_ALIGNMENT - 1) & ~std::size_t{MODELWHEEL_ALIGNMENT - 1};
}

/// Bytes of modelwheel_model, which only instance.h knows.
inline constexpr std::size_t kHeadBytes = 512;

/// Words for batch rules in addition to those of the spec: about sixty rules.
inline constexpr std::size_t kSpareRuleWords = 256;

/// Bytes of one copy of the state. Every tensor begins at a multiple of the alignment, as compiled programs expect.
constexpr std::size_t state_bytes(const modelwheel_tensor *states, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += aligned(states[i].row_bytes);
  return bytes;
}

/// Words for the batch rules of an instance.
constexpr std::size_t all_rule_words(const char *const *rules, std::size_t count) {
  std::size_t words = kSpareRuleWords;
  for (std::size_t i = 0; i < count; ++i) words += rule_words(rules[i]);
  return words;
}

/// The parts that are the same for every level, in bytes.
struct CommonMemory {
  std::size_t pointers, rules, state;

  constexpr CommonMemory(std::size_t num_pointers, const char *const *spec_rules, std::size_t num_rules,
                         const modelwheel_tensor *states, std::size_t num_states)
      : pointers(aligned(num_pointers * sizeof(void *))),
        rules(aligned(all_rule_words(spec_rules, num_rules) * sizeof(std::uint32_t))),
        state(2 * state_bytes(states, num_states)) {}

  constexpr std::size_t bytes() const { return kHeadBytes + pointers + rules + state; }
};

/// The parts that depend on the level, in bytes.
struct LevelMemory {
  std::size_t plan = 0, arena = 0;
  /// Bytes for each of the threads that share steps; not part of the instance's own memory.
  std::size_t part = 0;

  /// `variants`: one for each batch size, and this for each of `num_lengths` lengths, at least 1.
  constexpr LevelMemory(const Variant *variants, std::size_t num_batch_sizes, std::size_t num_lengths) {
    const Variant *largest = variants + (num_lengths - 1) * num_batch_sizes;
    plan = aligned(BatchPlanner::table_size(largest, num_batch_sizes) * sizeof(std::uint16_t));
    // Before its first run an instance plans batches there.
    arena = BatchPlanner::scratch_size(largest, num_batch_sizes) * sizeof(double);
    for (std::size_t i = 0; i < num_batch_sizes * num_lengths; ++i) {
      if (variants[i].arena_bytes > arena) arena = variants[i].arena_bytes;
      if (variants[i].part_bytes > part) part = variants[i].part_bytes;
    }
    arena = aligned(arena);
  }

  constexpr std::size_t bytes() const { return plan + arena; }
};

/// A number as text that is found in a library's file, whatever system it is for: "modelwheel NAME bytes:
/// 000000001234".
template <std::size_t N>
struct SizeNote {
  char text[N + 32] = {};

  constexpr SizeNote(const char (&name)[N], std::size_t bytes) {
    std::size_t end = 0;
    for (const char c : "modelwheel ")
      if (c != '\0') text[end++] = c;
    for (const char c : name)
      if (c != '\0') text[end++] = c;
    for (const char c : " bytes: ")
      if (c != '\0') text[end++] = c;
    for (std::size_t digit = end + 12; digit-- > end; bytes /= 10) text[digit] = static_cast<char>('0' + bytes % 10);
  }
};

}  // namespace modelwheel
