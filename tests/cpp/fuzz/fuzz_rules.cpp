// Any text as a batch rule: the parser accepts what CMSSW's class accepts with the same sizes, and what it accepts it
// writes back.
#include <string>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "fuzz.h"
#include "rules.h"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static constexpr std::size_t kSizes[] = {1, 2, 4, 1000, 65536};
  static constexpr std::size_t kCount = sizeof kSizes / sizeof *kSizes;
  const std::string text(reinterpret_cast<const char *>(data), size);
  // With room for it and no more, so that a sanitizer finds what is written beyond.
  std::vector<std::uint32_t> words(modelwheel::rule_words(text.c_str()));
  if (modelwheel::parse_rule(text.c_str(), kSizes, kCount, words.data()) != nullptr) return 0;
  const modelwheel::BatchRule rule = modelwheel::read_rule(words.data());

  std::string written = std::to_string(rule.rows);
  std::vector<std::size_t> sizes;
  std::size_t covered = 0;
  for (std::size_t i = 0; i < rule.num_sizes; ++i) {
    REQUIRE(rule.sizes[i] < kCount && covered < rule.rows);
    sizes.push_back(kSizes[rule.sizes[i]]);
    covered += sizes.back();
    written += (i == 0 ? ':' : ',') + std::to_string(sizes.back());
  }
  REQUIRE(covered >= rule.rows);

  const tfaot::BatchRule other(written);
  REQUIRE(other.getBatchSize() == rule.rows && other.getSizes() == sizes);
  REQUIRE(other.getLastPadding() == covered - rule.rows);
  REQUIRE(modelwheel::rule_words(written.c_str()) == words.size());
  std::vector<std::uint32_t> again(words.size());
  REQUIRE(modelwheel::parse_rule(written.c_str(), kSizes, kCount, again.data()) == nullptr && again == words);
  return 0;
}
