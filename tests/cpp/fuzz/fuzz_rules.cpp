// Any text as a batch rule: the parser accepts what CMSSW's class accepts with the same sizes, and what it accepts it
// writes back.
#include <cstdlib>
#include <string>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "batching.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static constexpr std::size_t kSizes[] = {1, 2, 4, 1000, 65536};
  static constexpr std::size_t kCount = sizeof kSizes / sizeof *kSizes;
  const std::string text(reinterpret_cast<const char *>(data), size);
  modelwheel::BatchRule rule{};
  if (modelwheel::parse_rule(text.c_str(), kSizes, kCount, rule) != nullptr) return 0;

  std::string written = std::to_string(rule.rows);
  std::vector<std::size_t> sizes;
  std::size_t covered = 0;
  for (std::size_t i = 0; i < rule.num_sizes; ++i) {
    REQUIRE(rule.sizes[i] < kCount && covered < rule.rows);
    sizes.push_back(kSizes[rule.sizes[i]]);
    covered += sizes.back();
    written += (i == 0 ? ':' : ',') + std::to_string(sizes.back());
  }
  std::free(rule.sizes);
  REQUIRE(covered >= rule.rows);

  const tfaot::BatchRule other(written);
  REQUIRE(other.getBatchSize() == rule.rows && other.getSizes() == sizes);
  REQUIRE(other.getLastPadding() == covered - rule.rows);
  modelwheel::BatchRule again{};
  REQUIRE(modelwheel::parse_rule(written.c_str(), kSizes, kCount, again) == nullptr);
  REQUIRE(again.rows == rule.rows && again.num_sizes == sizes.size());
  std::free(again.sizes);
  return 0;
}
