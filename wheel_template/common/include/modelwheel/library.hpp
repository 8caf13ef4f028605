// modelwheel/library.hpp - opens the shared library of a model and finds its table.
//
//   modelwheel::Model old(modelwheel::open_library("/opt/1.0/libmodel_digits.so", "model_digits"));
//   modelwheel::Model now(modelwheel::open_library("/opt/1.1/libmodel_digits.so", "model_digits"));
//
// Several versions of one model can be open in one program, which need not be linked to any.
#ifndef MODELWHEEL_LIBRARY_HPP
#define MODELWHEEL_LIBRARY_HPP

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <system_error>
#else
#include <dlfcn.h>
#endif

#include <string>

#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"

namespace modelwheel {

/// Loads a library by its absolute path, and finds one of its functions. Throws Error. The library is never unloaded,
/// and nothing is bound to its names, so that another one of the same name may be there.
#ifdef _WIN32
using NativePath = std::wstring;

inline void *find_function(const NativePath &path, const std::string &name) {
  // Dependencies are beside the library or in the system, never in the current directory.
  const HMODULE library =
      LoadLibraryExW(path.c_str(), nullptr, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  if (library == nullptr) {
    const int code = static_cast<int>(GetLastError());
    throw Error("cannot be loaded (" + std::system_category().message(code) + "); install the model again");
  }
  return reinterpret_cast<void *>(GetProcAddress(library, name.c_str()));
}
#else
using NativePath = std::string;

inline void *find_function(const NativePath &path, const std::string &name) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(std::string("cannot be loaded (") + dlerror() + "); install the model again");
  return dlsym(library, name.c_str());
}
#endif

/// The table of the model whose Python module is called `module`, from its library at the absolute path `path`. Throws
/// Error with the problem of the library; `runtime` is the version of the package modelwheel-runtime, for its users.
/// Only the two members that every version of the ABI has are read before it is known to be the right one.
inline const modelwheel_api &open_library(const NativePath &path, const std::string &module,
                                          const std::string &runtime = "") {
  const std::string name = module + "_api";
  const auto function = reinterpret_cast<const modelwheel_api *(*)()>(find_function(path, name));
  if (function == nullptr) throw Error("has no function " + name + ": it is not the library of " + module);
  const modelwheel_api &api = *function();
  const std::string reader = runtime.empty() ? "this program" : "modelwheel-runtime " + runtime;
  const std::string found = std::to_string(api.abi_version), next = std::to_string(api.abi_version + 1);
  const std::string fix = runtime.empty() ? "compile it with the headers that come with the library"
                                          : "pip install \"modelwheel-runtime>=" + found + ",<" + next + '"';
  if (api.abi_version != MODELWHEEL_ABI_VERSION)
    throw Error("was built for version " + found + " of modelwheel's ABI, but " + reader + " is for version " +
                std::to_string(MODELWHEEL_ABI_VERSION) + "; " + fix);
  if (!is_compatible(api))
    throw Error("offers a table of " + std::to_string(api.struct_size) + " bytes, but " + reader + " needs " +
                std::to_string(kTableBytes) + "; build the model again");
  return api;
}

}  // namespace modelwheel

#endif  // MODELWHEEL_LIBRARY_HPP
