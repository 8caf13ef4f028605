// src/rules.h - batch rules: how one number of rows is split into compiled batch sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace modelwheel {

/// A batch rule: the sizes that one number of rows is split into, in order; the last one may be padded.
struct BatchRule {
  std::size_t rows = 0;
  /// 0: there is no such rule.
  std::size_t num_sizes = 0;
  /// Indices into the compiled batch sizes.
  const std::uint32_t *sizes = nullptr;
};

/// The problem with the text of a rule; null if it is valid.
using RuleProblem = const char *;

/// Words of memory that the rule in a text takes, if it is one: its rows, the number of its sizes, the sizes.
constexpr std::size_t rule_words(const char *text) {
  std::size_t words = 3;
  for (const char *c = text; *c != '\0'; ++c) words += *c == ',';
  return words;
}

/// Parses "5:2,2,2" into `words`, which has room for rule_words(text).
RuleProblem parse_rule(const char *text, const std::size_t *batch_sizes, std::size_t num_batch_sizes,
                       std::uint32_t *words);

/// The rule that parse_rule wrote.
inline BatchRule read_rule(const std::uint32_t *words) { return {words[0], words[1], words + 2}; }

/// The rules of an instance, one behind the other in memory of its own.
class BatchRules {
 public:
  /// Memory for `size` words; rules that are in other memory move.
  void use_memory(std::uint32_t *words, std::size_t size);

  /// Words in use, and how many more there are.
  std::size_t used() const { return used_; }
  std::size_t room() const { return size_ - used_; }

  /// Where parse_rule writes the next rule, and `keep` takes it from, in place of one for as many rows.
  std::uint32_t *next() { return words_ + used_; }
  void keep();

  /// The rule for a number of rows.
  BatchRule find(std::size_t rows) const;

 private:
  std::uint32_t *words_ = nullptr;
  std::size_t used_ = 0, size_ = 0;
};

}  // namespace modelwheel
