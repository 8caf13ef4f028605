/* choose_level - makes an instance and prints the CPU level that it runs at, or why there is none. */
#include "modelwheel/abi.h"

#include <stdio.h>

#define JOIN(a, b) a##b
#define API(model) JOIN(model, _api)

const modelwheel_api *API(MODEL)(void);

int main(void) {
  const modelwheel_api *api = API(MODEL)();
  char problem[256];
  modelwheel_model *model;
  if (api->create(NULL, &model, problem, sizeof problem) != MODELWHEEL_OK) {
    puts(problem);
    return 1;
  }
  puts(api->level(model));
  api->destroy(model);
  return 0;
}
