// modelwheel::Model: buffers of any kind, checks, no allocation.
#include <array>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "check.h"
#include "throws.h"
#include "toy_functions.h"

static int allocations = 0;

void *operator new(std::size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

using modelwheel::AlignedVector;
using modelwheel::dtype_of;
using modelwheel::Span;

static_assert(dtype_of<bool>() == MODELWHEEL_BOOL && dtype_of<std::uint8_t>() == MODELWHEEL_UINT8);
static_assert(dtype_of<long long>() == MODELWHEEL_INT64 && dtype_of<std::complex<float>>() == MODELWHEEL_COMPLEX64);
static_assert(modelwheel::stores(MODELWHEEL_UINT16, MODELWHEEL_BFLOAT16));
static_assert(!modelwheel::stores(MODELWHEEL_UINT16, MODELWHEEL_INT16));
static_assert(std::is_convertible_v<std::vector<float> &, Span<const float>>);
static_assert(!std::is_convertible_v<const std::vector<float> &, Span<float>>);
static_assert(!std::is_convertible_v<std::vector<double> &, Span<const float>>);
static_assert(!std::is_copy_constructible_v<model_toy::Model> && std::is_move_constructible_v<model_toy::Model>);

void test_aligned_vector() {
  AlignedVector<bool> flags(3);
  CHECK(reinterpret_cast<std::uintptr_t>(flags.data()) % 64 == 0);
  CHECK(!flags[0] && !flags[1] && !flags[2]);
  flags[1] = true;
  AlignedVector<bool> copy = flags;
  flags[1] = false;
  CHECK(copy[1] && copy.size() == 3);
  const AlignedVector<bool> moved = std::move(copy);
  CHECK(moved[1] && copy.size() == 0 && copy.begin() == copy.end());
  copy = moved;
  CHECK(copy[1]);
}

void test_buffers_of_any_kind() {
  model_toy::Model model;
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::int32_t n[] = {1, 0, -1};
  std::array<float, 6> y{};
  AlignedVector<bool> positive(3);
  std::vector<std::int64_t> pair(6);
  model.run(3, {x, n}, {y, positive, pair});
  CHECK(y[5] == 11 && positive[0] && !positive[1] && pair[5] == 1);

  const int before = allocations;
  model.run(3, {x, n}, {y, positive, pair});
  model.run_batch_size(2, {Span<const float>(x.data(), 4), Span<const std::int32_t>(n, 2)},
                       {Span<float>(y.data(), 4), Span<bool>(positive.data(), 2), Span<std::int64_t>(pair.data(), 4)});
  CHECK(allocations == before);
}

void test_call() {
  model_toy::Model model;
  const model_toy::Outputs outputs = model(std::vector<float>{1, 2, 3, 4}, std::vector<std::int32_t>{1, 2});
  CHECK(outputs.y.size() == 4 && outputs.y[3] == 10);
  CHECK(outputs.positive.size() == 2 && outputs.pair.size() == 4 && outputs.pair[2] == 2);
  CHECK(model({}, {}).y.size() == 0);
  model_toy::Model moved(std::move(model));
  CHECK(moved(std::array<float, 2>{1, 1}, std::array<std::int32_t, 1>{5}).y[0] == 7);
}

void test_mistakes_are_refused() {
  model_toy::Model model;
  const std::vector<float> x = {1, 2, 3};
  const std::vector<std::int32_t> n = {1, 2};
  const std::vector<double> doubles = {1, 2};
  std::vector<float> y(2);
  CHECK(throws("toy: input 'x' must have 2 elements for 1 row, got 3", [&] { model(x, n); }));
  CHECK(
      throws("toy: input 'n' must have 1 element for 1 row, got 2", [&] { model(Span<const float>(x.data(), 2), n); }));
  CHECK(throws("toy: input 'x' must be float32, got float64", [&] { model.run(1, {doubles, n}, {y, y, y}); }));
  CHECK(throws("toy: expected 2 inputs, got 1", [&] { model.run(1, {x}, {y}); }));
  CHECK(throws("toy: expected 3 outputs, got 1",
               [&] { model.run(1, {Span<const float>(x.data(), 2), Span<const std::int32_t>(n.data(), 1)}, {y}); }));
  CHECK(throws("no such level", [] { model_toy::Model("no such level"); }));
}

void test_batching() {
  model_toy::Model model;
  CHECK(model.batch_sizes().size() == 3 && model.batch_sizes()[2] == 4);
  CHECK(model.batch_rule(5) == "5:4,1");
  model.set_batch_rule("5:2,2,2");
  CHECK(model.batch_rule(5) == "5:2,2,2");
  model.set_batch_strategy("smallest");
  CHECK(model.batch_rule(3) == "3:1,1,1");
  CHECK(throws("dearest", [&] { model.set_batch_strategy("dearest"); }));
  CHECK(throws("5:3", [&] { model.set_batch_rule("5:3,3"); }));
}

void test_foreign_library_is_refused() {
  modelwheel_api newer = toy_api();
  newer.abi_version = MODELWHEEL_ABI_VERSION + 1;
  CHECK(throws("compile it with the headers that come with the library", [&] { modelwheel::Model model(newer); }));
  modelwheel_api older = toy_api();
  older.struct_size = modelwheel::kTableBytes - 1;
  CHECK(throws("ABI version", [&] { modelwheel::Model model(older); }));
}

}  // namespace

int main() {
  test_aligned_vector();
  test_buffers_of_any_kind();
  test_call();
  test_mistakes_are_refused();
  test_batching();
  test_foreign_library_is_refused();
  return check_report();
}
