// src/bindings.cpp - what the Python extension of one model has of its own: the model's library, to which it is linked.
#include <cstring>

#include "bindings/extension.h"

extern "C" const modelwheel_api *MODELWHEEL_API(void);

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

namespace modelwheel {

/// Libraries of two versions have one name, by which systems know those that are loaded: to the second version that is
/// imported they link the library of the first one. It then opens its own.
void add_members(PyObject *module) {
  const modelwheel_api *api = MODELWHEEL_API();
  if (std::strcmp(api->version, MODELWHEEL_MODEL_VERSION) != 0)
    api = &table_beside(module, MODELWHEEL_LIBRARY, TEXT(MODELWHEEL_API));
  add_library(module, "library", *api);
}

}  // namespace modelwheel
