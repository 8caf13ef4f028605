// cms_tfcompile - code as it is written for the classes that tfcompile generates, and a second unit with all headers.
#include <algorithm>
#include <iostream>

#include "require.h"
#include "tfaot-model-test-multi/model.h"
#include "tfaot-model-test-simple/model.h"
#include "tfaot-model-test-simple/test_simple_bs2.h"

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"

void run_tfcompile_classes();

using tfaot_model::test_multi_bs4;
using tfaot_model::test_simple_bs2;

static_assert(test_simple_bs2::kNumArgs == 1 && test_simple_bs2::kNumResults == 1);
static_assert(test_simple_bs2::arg0_count() == 8 && test_simple_bs2::arg0_size() == 32);
static_assert(test_simple_bs2::result0_count() == 4 && test_simple_bs2::result0_size() == 16);
static_assert(test_multi_bs4::arg1_count() == 16 && test_multi_bs4::arg1_size() == 128);
static_assert(test_multi_bs4::result1_count() == 8 && test_multi_bs4::result1_size() == 8);

void run_tfcompile_classes() {
  test_simple_bs2 model;
  model.set_thread_pool(nullptr);
  const float rows[] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::copy(rows, rows + 8, model.arg0_data());
  model.arg0(1, 3) = 7;
  REQUIRE(model.arg_input(0, 2) == 2);
  REQUIRE(model.Run());
  for (int row = 0; row < 2; ++row)
    std::cout << "tfcompile 2 " << model.result0(row, 0) << ' ' << model.result_output(row, 1) << '\n';

  test_simple_bs2 borrowing(test_simple_bs2::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  borrowing.set_arg0_data(rows);
  REQUIRE(borrowing.Run());
  REQUIRE(std::equal(model.result0_data(), model.result0_data() + 4, borrowing.result0_data()));
  REQUIRE(borrowing.results()[0] == borrowing.result0_data() && borrowing.args()[0] == rows);
  REQUIRE(borrowing.error_msg().empty());
}
