/* An extension that Python could load: -DALSO=... puts something into it. */
#include <stddef.h>

#ifndef ALSO
#define ALSO
#endif

void *PyModule_Create2(void *definition, int version);
float model_tiny_sum(const float *values, size_t n);
/* ALSO ends its own statements. */
/* clang-format off */
ALSO

__attribute__((visibility("default"))) void *PyInit__core(void) {
  static float values[2];
  values[0] = model_tiny_sum(values, 2);
  return PyModule_Create2(values, 1013);
}
