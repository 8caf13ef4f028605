// check.h - the few lines of test framework that these tests need: report every failure, go on, exit non-zero.
#pragma once

#include <cmath>
#include <cstdio>

inline int &check_failures() {
  static int failures = 0;
  return failures;
}

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++check_failures();                                                 \
    }                                                                     \
  } while (false)

#define CHECK_NEAR(a, b, tolerance)                                                                  \
  do {                                                                                               \
    const double check_a = static_cast<double>(a), check_b = static_cast<double>(b);                 \
    if (!(std::fabs(check_a - check_b) <= (tolerance))) {                                            \
      std::printf("%s:%d: %s = %.9g but %s = %.9g\n", __FILE__, __LINE__, #a, check_a, #b, check_b); \
      ++check_failures();                                                                            \
    }                                                                                                \
  } while (false)

inline int check_report() {
  if (check_failures() == 0) std::printf("all checks passed\n");
  return check_failures() == 0 ? 0 : 1;
}
