// main.cpp - runs the kernels' tests for one CPU level; exits with 77, which CTest takes as skipped, on a lesser CPU.
//
// Compiled without the level's instructions, so that it can find out.
#include <cstdio>

#include "check.h"
#include "cpu_level.h"
#include "tests.h"

int main() {
  if (!modelwheel::cpu_supports(MODELWHEEL_LEVEL_NAME)) {
    std::printf("this CPU cannot run code for %s\n", MODELWHEEL_LEVEL_NAME);
    return 77;
  }
  using namespace modelwheel::MODELWHEEL_LEVEL;
  test_numeric();
  test_rng();
  test_activation();
  test_attention();
  test_dot();
  test_convolution();
  test_convolution_decomposed();
  test_convolution_lines();
  test_copy_rows();
  test_elementwise();
  test_pooling();
  test_row_reduction();
  test_scaling();
  test_lookup();
  test_sort();
  test_strips();
  test_winograd();
  test_top_k();
  test_fft();
  return check_report();
}
