/* The code of one level, compiled for each: -DLEVEL=low or high. */
#include "tiny.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

static volatile int state;

__attribute__((noinline)) static void multiply(const float *in, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = in[i] * in[i] + 1.0F;
}

/* A jump table, in the code itself on some platforms. */
__attribute__((noinline)) static void choose(size_t n) {
  switch (n) {
    case 0: state = 5; break;
    case 1: state += 7; break;
    case 2: state -= 11; break;
    case 3: state *= 13; break;
    case 4: state ^= 17; break;
    case 5: state |= 19; break;
    case 6: state &= 23; break;
    default: state = ~state;
  }
}

static int less(const float *a, const float *b) {
  float wide[2][8];
  multiply(a, wide[0], 8);
  multiply(b, wide[1], 8);
  return wide[0][7] < wide[1][7];
}

static _Bool run_b1(const float *in, float *out, size_t n) {
  multiply(in, out, n);
  choose(n);
  return sorted(in, n, less);
}

static _Bool run_b4(const float *in, float *out, size_t n) {
  for (int i = 0; i < 4; ++i) multiply(in, out, n);
  LEVEL_CODE;
  return n != 0;
}

const Variant JOIN(LEVEL, _variants)[] = {
    {1, 64, &four, &four, 1.0, run_b1, 0, 0.0, 0.0, 0},
    {4, 64, &four, &four, 2.0, run_b4, 0, 0.0, 0.0, 0},
};
