// Stored weights: every finite 16-bit float, and integers with a scale for each index of the slowest or fastest axis.
#include "expand.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "check.h"
#include "program.h"

namespace modelwheel {
namespace {

constexpr std::size_t kHalves = 65536, kIntegers = 12, kScales = 3, kPlain = 5;
constexpr std::size_t kIntegerPlace = 2 * kHalves, kScalePlace = kIntegerPlace + 64, kPlainPlace = kScalePlace + 64;
constexpr std::size_t kSlowest = 4 * kHalves, kFastest = kSlowest + 64, kCopied = kFastest + 64;

constexpr StoredConstant stored[] = {
    {StoredAs::kFloat16, 0, 0, kHalves, 0, 1, 1},
    {StoredAs::kInt8, kSlowest, kIntegerPlace, kIntegers, kScalePlace, 4, kScales},
    {StoredAs::kInt8, kFastest, kIntegerPlace, kIntegers, kScalePlace, 1, kScales},
    {StoredAs::kPlain, kCopied, kPlainPlace, kPlain, 0, 1, 1},
};
alignas(64) char expanded[kCopied + 64];
bool is_expanded = false;

void write_weights(char *bytes) {
  for (std::size_t i = 0; i < kHalves; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(bytes + 2 * i, &half, sizeof half);
  }
  const float scales[kScales] = {0.5F, 0.1F, 3.0F};
  std::memcpy(bytes + kScalePlace, scales, sizeof scales);
  for (std::size_t i = 0; i < kIntegers; ++i)
    bytes[kIntegerPlace + i] = static_cast<char>(20 * static_cast<int>(i) - 127);
  std::memcpy(bytes + kPlainPlace, "plain", kPlain);
}

}  // namespace

alignas(64) char stored_weights[kPlainPlace + kPlain] = {};
const Tables tables = {nullptr, 0,      "cheapest", nullptr,        0,        nullptr,
                       nullptr, stored, 4,          stored_weights, expanded, &is_expanded};

}  // namespace modelwheel

int main() {
  using namespace modelwheel;
  write_weights(stored_weights);
  CHECK(expand_weights());
  const auto *values = reinterpret_cast<const float *>(expanded);
  for (int half = 0; half < static_cast<int>(kHalves); ++half) {
    const int exponent = half / 1024 % 32, mantissa = half % 1024;
    if (exponent == 31) continue;  // never stored
    const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    CHECK(values[half] == static_cast<float>(half < 32768 ? size : -size));
    CHECK(std::signbit(values[half]) == (half >= 32768));
  }
  float scales[kScales];
  std::memcpy(scales, stored_weights + kScalePlace, sizeof scales);
  for (std::size_t i = 0; i < kIntegers; ++i) {
    const float integer = 20 * static_cast<float>(i) - 127;
    CHECK(values[kSlowest / 4 + i] == integer * scales[i / 4]);
    CHECK(values[kFastest / 4 + i] == integer * scales[i % kScales]);
  }
  CHECK(std::memcmp(expanded + kCopied, "plain", kPlain) == 0);
  return check_report();
}
