// src/rules.cpp - reading and keeping batch rules.
#include "rules.h"

#include <cstring>

namespace modelwheel {
namespace {

/// Words before the sizes of a rule.
constexpr std::size_t kHead = 2;

/// Reads a positive decimal number without sign or space; returns 0 if there is none or it is too large.
std::size_t read_number(const char *&text) {
  std::size_t value = 0;
  while (*text >= '0' && *text <= '9') {
    if (value > 100000000) return 0;
    value = value * 10 + static_cast<std::size_t>(*text++ - '0');
  }
  return value;
}

}  // namespace

RuleProblem parse_rule(const char *text, const std::size_t *batch_sizes, std::size_t num_batch_sizes,
                       std::uint32_t *words) {
  static constexpr RuleProblem kForm = "a batch rule reads ROWS:SIZE,SIZE,... as in 5:2,2,2";
  const std::size_t rows = read_number(text);
  if (rows == 0 || *text++ != ':') return kForm;
  std::size_t count = 0, covered = 0;
  for (bool more = true; more; ++count) {
    const std::size_t size = read_number(text);
    std::size_t index = 0;
    while (index < num_batch_sizes && batch_sizes[index] != size) ++index;
    if (size == 0 || (*text != ',' && *text != '\0')) return kForm;
    if (index == num_batch_sizes) return "a batch rule may only use compiled batch sizes";
    if (covered >= rows) return "a batch rule must not go on after its rows are covered";
    words[kHead + count] = static_cast<std::uint32_t>(index);
    covered += size;
    more = *text++ == ',';
  }
  if (covered < rows) return "the sizes of a batch rule must sum to its rows or more";
  words[0] = static_cast<std::uint32_t>(rows);
  words[1] = static_cast<std::uint32_t>(count);
  return nullptr;
}

void BatchRules::use_memory(std::uint32_t *words, std::size_t size) {
  if (used_ != 0) std::memcpy(words, words_, used_ * sizeof *words);
  words_ = words;
  size_ = size;
}

void BatchRules::keep() {
  const BatchRule added = read_rule(next()), before = find(added.rows);
  used_ += kHead + added.num_sizes;
  if (before.num_sizes == 0) return;
  const std::size_t gone = kHead + before.num_sizes;
  std::uint32_t *place = words_ + (before.sizes - words_) - kHead;
  used_ -= gone;
  std::memmove(place, place + gone, static_cast<std::size_t>(words_ + used_ - place) * sizeof *place);
}

BatchRule BatchRules::find(std::size_t rows) const {
  for (const std::uint32_t *place = words_; place != words_ + used_; place += kHead + place[1])
    if (place[0] == rows) return read_rule(place);
  return {};
}

}  // namespace modelwheel
