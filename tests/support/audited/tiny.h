/* The tables of wheel_template/model/src/program.h, in C. */
#include <stddef.h>

#ifdef _WIN32
#define MODELWHEEL_EXPORT __declspec(dllexport)
#else
#define MODELWHEEL_EXPORT __attribute__((visibility("default")))
#endif

/* Names of the levels, and code that a test puts somewhere: -DCODE='__asm__(...)'. */
#ifndef LOW
#define LOW "x86-64"
#define HIGH "x86-64-v3"
#endif
#ifndef CODE
#define CODE
#endif
#ifndef LEVEL_CODE
#define LEVEL_CODE
#endif

typedef struct {
  size_t batch_size, arena_bytes;
  const size_t *input_staging, *output_staging;
  double cost;
  _Bool (*run)(const float *in, float *out, size_t n);
  size_t part_bytes;
  double shared, partial;
  const _Bool *reads_all_rows;
} Variant;

typedef struct {
  const char *name;
  const Variant *variants;
} Level;

static const size_t four __attribute__((unused)) = 4;

void helper(void);
extern void (*volatile pointer)(void);
extern void (*const table[])(void); /* -DTABLE */
int sorted(const float *values, size_t n, int (*less)(const float *, const float *));
extern const Variant low_variants[], high_variants[];
