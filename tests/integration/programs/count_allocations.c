/* count_allocations - runs a model at many numbers of rows and counts what it allocates meanwhile.
 *
 * Compiled with -DMODEL=model_NAME against the installed wheel. The allocation functions below stand in front of
 * glibc's for the whole process, the model's library included. Prints "CREATION RUNS": how often memory was asked for
 * while an instance was made, and while it ran. */
#include "modelwheel/abi.h"

#include <stdio.h>
#include <string.h>

#define JOIN(a, b) a##b
#define API(model) JOIN(model, _api)

const modelwheel_api *API(MODEL)(void);

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static unsigned long allocations;

void *malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  ++allocations;
  *memory = __libc_memalign(alignment, size);
  return 0;
}

enum { kRows = 23, kTensors = 16, kOffset = MODELWHEEL_ALIGNMENT };

/* Zeros for `kRows` rows, at a multiple of the alignment and `offset` bytes behind it. */
static void *buffer(const modelwheel_tensor *tensor, size_t offset) {
  const size_t bytes = kRows * tensor->row_bytes + 2 * kOffset;
  char *memory = __libc_memalign(MODELWHEEL_ALIGNMENT, bytes);
  memset(memory, 0, bytes);
  return memory + offset;
}

int main(void) {
  const modelwheel_api *api = API(MODEL)();
  const void *inputs[kTensors];
  void *outputs[kTensors];
  modelwheel_model *model;
  unsigned long before = allocations, creation;
  if (api->create(NULL, &model, NULL, 0) != MODELWHEEL_OK) return 1;
  creation = allocations - before;

  before = allocations;
  for (size_t offset = 0; offset <= 4; offset += 4) {
    for (size_t i = 0; i < api->num_inputs; ++i) inputs[i] = buffer(&api->inputs[i], offset);
    for (size_t i = 0; i < api->num_outputs; ++i) outputs[i] = buffer(&api->outputs[i], offset);
    for (size_t rows = 0; rows <= kRows; ++rows) {
      const modelwheel_status status = api->run(model, rows, inputs, outputs);
      if (status != MODELWHEEL_OK && status != MODELWHEEL_UNSUPPORTED) return 2; /* rows may depend on each other */
    }
    for (size_t i = 0; i < api->num_batch_sizes; ++i)
      if (api->run_batch_size(model, api->batch_sizes[i], inputs, outputs) != MODELWHEEL_OK) return 3;
  }
  before = allocations - before;
  printf("%lu %lu\n", creation, before);
  api->destroy(model);
  return 0;
}
