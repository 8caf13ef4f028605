// main.cpp - runs the kernels' tests for one CPU level, or those that are named; exits with 77, which CTest takes as
// skipped, on a lesser CPU.
//
// Compiled without the level's instructions, so that it can find out.
#include <cstdio>
#include <cstring>

#include "check.h"
#include "cpu_level.h"
#include "tests.h"

// The ends of the section, which the linker knows.
extern "C" const KernelTest *const __start_kernel_tests[];
extern "C" const KernelTest *const __stop_kernel_tests[];

int main(int count, char **names) {
  if (!modelwheel::cpu_supports(MODELWHEEL_LEVEL_NAME)) {
    std::printf("this CPU cannot run code for %s\n", MODELWHEEL_LEVEL_NAME);
    return 77;
  }
  int done = 0;
  for (const KernelTest *const *test = __start_kernel_tests; test != __stop_kernel_tests; ++test) {
    bool wanted = count == 1;
    for (int i = 1; i < count; ++i) wanted = wanted || std::strcmp((*test)->name, names[i]) == 0;
    if (!wanted) continue;
    (*test)->run();
    ++done;
  }
  CHECK(done > 0);
  return check_report();
}
