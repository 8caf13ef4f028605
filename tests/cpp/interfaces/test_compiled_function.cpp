// The class of one batch size: code as it is written for classes that tfcompile generates.
#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"
#include "throws.h"
#include "toy_functions.h"

namespace {

using tfaot_model::toy_bs2;

using AllocMode = toy_bs2::AllocMode;
static_assert(AllocMode::ARGS_RESULTS_AND_TEMPS == AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS);
static_assert(AllocMode::RESULTS_AND_TEMPS_ONLY == AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
static_assert(!std::is_copy_constructible_v<toy_bs2> && std::is_move_constructible_v<toy_bs2>);
static_assert(toy_bs2::arg0_count() == 4 && toy_bs2::arg0_size() == 16 && toy_bs2::arg_n_size() == 8);
static_assert(toy_bs2::result2_count() == 4 && toy_bs2::result2_size() == 32);

void fill(toy_bs2 &function) {
  const float x[] = {1, 2, 3, 4};
  std::copy(x, x + 4, function.arg0_data());
  function.arg1(0) = 10;
  function.arg_n(1) = -10;
}

void check_results(const toy_bs2 &function) {
  CHECK(function.result0(0, 0) == 12 && function.result0(1, 1) == -2);
  CHECK(function.result_fetch_y_data() == function.result0_data());
  CHECK(function.result2(0) == 10 && function.result2(3) == 10);
}

void test_owned_arguments() {
  toy_bs2 function;
  function.set_thread_pool(nullptr);
  fill(function);
  CHECK(function.arg_x(1, 0) == 3 && function.arg_feed_x_data() == function.args()[0]);
  CHECK(function.Run());
  check_results(function);

  toy_bs2 moved(std::move(function));
  check_results(moved);
  moved.arg0(0, 0) = 2;
  CHECK(moved.Run() && moved.result0(0, 0) == 14);
}

void test_borrowed_arguments_of_any_alignment() {
  toy_bs2 function(toy_bs2::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  CHECK(!function.Run());
  CHECK(function.error_msg().find("input 'x'") != std::string::npos);

  std::vector<float> x = {0, 1, 2, 3, 4};
  const std::vector<std::int32_t> n = {0, 10, -10};
  function.set_arg0_data(x.data() + 1);
  function.set_arg_n_data(n.data() + 1);
  CHECK(function.Run());
  check_results(function);
  x[1] = 2;
  CHECK(function.Run() && function.result0(0, 0) == 14);
}

void test_description() {
  toy_bs2 function;
  CHECK(function.num_args() == 2 && function.num_results() == 3 && function.num_variables() == 0);
  CHECK(function.arg_size(0) == 16 && function.result_size(1) == 2);
  CHECK(function.LookupArgIndex("n") == 1 && function.LookupArgIndex("y") == -1);
  CHECK(function.LookupResultIndex("pair") == 2);
  CHECK(std::string(function.GetArgName(0)) == "x" && function.GetArgName(2) == nullptr);
  CHECK(function.profile_counters() == nullptr && !function.hlo_profiling_enabled());
}

void test_failure_is_reported() {
  toy_bs2 function;
  CHECK(function.error_msg().empty());
  toy_fail_next = true;
  CHECK(!function.Run());
  CHECK(!function.error_msg().empty());
}

}  // namespace

int main() {
  test_owned_arguments();
  test_borrowed_arguments_of_any_alignment();
  test_description();
  test_failure_is_reported();
  return check_report();
}
