/* doubling.c - a model by hand, in plain C: y = 2 x for rows of two float32. Batch sizes 1 and 4, one level.
 *
 * ABI_VERSION and STRUCT_SIZE can be set to make it a library of another generation, VERSION one of another model. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "modelwheel/abi.h"
#include "modelwheel/export.h"

#ifndef ABI_VERSION
#define ABI_VERSION MODELWHEEL_ABI_VERSION
#endif
#ifndef STRUCT_SIZE
#define STRUCT_SIZE offsetof(modelwheel_api, run_views) /* older than views: strided arrays are copied */
#endif
#ifndef VERSION
#define VERSION "1.2"
#endif

struct modelwheel_model {
  const char *error;
};

static modelwheel_status create(const char *level, modelwheel_model **model, char *error, size_t error_size) {
  *model = NULL;
  if (level != NULL && strcmp(level, "plain") != 0) {
    strncpy(error, "there is no such level", error_size);
    return MODELWHEEL_UNSUPPORTED;
  }
  *model = malloc(sizeof **model);
  if (*model == NULL) return MODELWHEEL_OUT_OF_MEMORY;
  (*model)->error = "";
  return MODELWHEEL_OK;
}

static void destroy(modelwheel_model *model) { free(model); }
static const char *level(const modelwheel_model *model) { return model != NULL ? "plain" : ""; }
static const char *error(const modelwheel_model *model) { return model != NULL ? model->error : ""; }

static modelwheel_status run_interruptible(modelwheel_model *model, size_t rows, const void *const *inputs,
                                           void *const *outputs, modelwheel_interrupt interrupt, void *context) {
  const float *x = inputs[0];
  float *y = outputs[0];
  for (size_t i = 0; i < 2 * rows; ++i) {
    if (x[i] < 0) { /* a kernel that fails, with a sentence that is not UTF-8 */
      model->error = "a value is negative\xe2\x82";
      return MODELWHEEL_INTERNAL;
    }
    while (x[i] > 1e9F) /* a kernel that takes for ever */
      if (interrupt != NULL && interrupt(context) != 0) return MODELWHEEL_INTERRUPTED;
    y[i] = 2 * x[i];
  }
  return MODELWHEEL_OK;
}

static modelwheel_status run(modelwheel_model *model, size_t rows, const void *const *inputs, void *const *outputs) {
  return run_interruptible(model, rows, inputs, outputs, NULL, NULL);
}

static modelwheel_status refuse(modelwheel_model *model, const char *text) {
  model->error = text;
  return MODELWHEEL_INVALID_ARGUMENT;
}

static modelwheel_status set_batch_rule(modelwheel_model *model, const char *rule) {
  return strcmp(rule, "5:4,1") == 0 ? MODELWHEEL_OK : refuse(model, rule);
}

static modelwheel_status set_batch_strategy(modelwheel_model *model, const char *strategy) {
  return strcmp(strategy, "cheapest") == 0 ? MODELWHEEL_OK : refuse(model, strategy);
}

static modelwheel_status batch_rule(modelwheel_model *model, size_t rows, char *text, size_t size, size_t *length) {
  static const char rule[] = "5:4,1";
  if (rows != 5 && rows < (size_t)1 << 60) return refuse(model, "only five rows have a rule");
  if (text != NULL && size > 0) {
    strncpy(text, rule, size);
    text[size - 1] = 0;
  }
  if (length != NULL) *length = rows == 5 ? sizeof rule - 1 : rows; /* a rule of any length */
  return MODELWHEEL_OK;
}

static size_t rows_per_thread(modelwheel_model *model, size_t rows, size_t length, size_t threads) {
  (void)model;
  (void)length;
  return rows < 2 ? rows : (rows - 1) / threads + 1;
}

static modelwheel_status set_threads(modelwheel_model *model, size_t threads, modelwheel_parallel_for parallel_for,
                                     void *context) {
  (void)model;
  (void)threads;
  (void)parallel_for;
  (void)context;
  return MODELWHEEL_OK;
}

static double estimate(modelwheel_model *model, size_t rows, size_t length, size_t threads) {
  (void)model;
  (void)length;
  (void)threads;
  return 1e6 * (double)rows; /* long enough to release the GIL */
}

static const int64_t shape[] = {-1, 2};
#ifdef BFLOAT16 /* arrays of the wrong type are refused before a run */
static const modelwheel_tensor x = {"x/given", "x_given", MODELWHEEL_BFLOAT16, 2, 2, shape, 1, 2, 4};
#else
static const modelwheel_tensor x = {"x/given", "x_given", MODELWHEEL_FLOAT32, 4, 2, shape, 1, 2, 8};
#endif
static const modelwheel_tensor y = {"y", "y", MODELWHEEL_FLOAT32, 4, 2, shape, 1, 2, 8};
static const size_t batch_sizes[] = {1, 4};
static const char *const levels[] = {"plain"};
/* clang-format off */
static const modelwheel_api api = {
    STRUCT_SIZE, ABI_VERSION, "doubling", VERSION, "{}",   1,       &x,    1,     &y,  2,   batch_sizes,    1,
    NULL,        1,           levels,     create, destroy, level, error, run,   run, set_batch_rule,
    set_batch_strategy, batch_rule, run_interruptible, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL,
    NULL,        NULL,        rows_per_thread, set_threads, estimate, NULL, NULL,
};
/* clang-format on */

MODELWHEEL_EXPORT const modelwheel_api *model_doubling_api(void);
MODELWHEEL_EXPORT const modelwheel_api *model_doubling_api(void) { return &api; }
