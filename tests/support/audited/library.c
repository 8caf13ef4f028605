/* The smallest library with the dispatch tables of a model's (wheel_template/model/src/program.h). */
#include "tiny.h"

static const Level levels[] = {{LOW, low_variants}, {HIGH, high_variants}};

#ifdef _WIN32
int _fltused;
int DllMainCRTStartup(void *module, unsigned reason, void *reserved) { return module && reason && !reserved; }
#endif

/* -DHELPER='...': code in a function of its own, called in whatever way -DCODE or -DLEVEL_CODE says. */
#ifdef HELPER
__attribute__((noinline)) void helper(void) { HELPER; }
void (*volatile pointer)(void);
#ifdef TABLE
void (*const table[])(void) = {helper, helper};
#endif
#endif

/* What both levels call with functions of their own. */
int sorted(const float *values, size_t n, int (*less)(const float *, const float *)) {
  for (size_t i = 1; i < n; ++i)
    if (less(values + i, values + i - 1)) return 0;
  return 1;
}

MODELWHEEL_EXPORT int model_tiny_run(size_t level, const float *in, float *out, size_t n) {
  CODE;
  return levels[level].variants[n & 1].run(in, out, n);
}

/* The baseline's own loop: its file may be compiled for too high a level. */
MODELWHEEL_EXPORT float model_tiny_sum(const float *values, size_t n) {
  float lanes[8] = {0};
  for (size_t i = 0; i + 8 <= n; i += 8)
    for (size_t k = 0; k < 8; ++k) lanes[k] += values[i + k] * values[i + k];
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
}

/* -DSURPLUS: something that is nobody's business. */
#ifdef SURPLUS
MODELWHEEL_EXPORT int surplus(void) { return 1; }
#endif

/* -DFOREIGN: something that another library defines. */
#ifdef FOREIGN
int FOREIGN(const void *data, size_t n);
__attribute__((used)) static int call_foreign(const void *data, size_t n) { return FOREIGN(data, n); }
#endif
