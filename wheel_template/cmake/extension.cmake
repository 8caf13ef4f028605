# cmake/extension.cmake - a thin Python extension: src/bindings.cpp, for one model or for all.

set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 3 CONFIG REQUIRED)

pybind11_add_module(_core src/bindings.cpp)
target_include_directories(_core PRIVATE src)
target_compile_options(_core PRIVATE
  -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Os
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
)
if(UNIX AND NOT APPLE)
  target_link_options(_core PRIVATE -Wl,--build-id=none -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now)
endif()
