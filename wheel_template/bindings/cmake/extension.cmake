# cmake/extension.cmake - a thin Python extension: src/bindings.cpp, for one model or for all.

set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 3 CONFIG REQUIRED)

pybind11_add_module(_core src/bindings.cpp)
target_include_directories(_core PRIVATE src)
target_compile_options(_core PRIVATE
  -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Os
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
)

# Python looks for one function; what the C++ library leaves visible could clash with other extensions.
if(APPLE)
  set(exports "${PROJECT_BINARY_DIR}/extension.txt")
  file(WRITE "${exports}" "_PyInit__core\n")
  target_link_options(_core PRIVATE "-Wl,-exported_symbols_list,${exports}" -Wl,-dead_strip)
elseif(UNIX)
  set(exports "${PROJECT_BINARY_DIR}/extension.map")
  file(WRITE "${exports}" "{ global: PyInit__core; local: *; };\n")
  target_link_options(_core PRIVATE
    "-Wl,--version-script=${exports}" -Wl,--build-id=none -Wl,--gc-sections
    -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now
  )
endif()
