# cmake/bindings.cmake - the part of an extension that is the same for all models, which takes longest to compile.
#
# It is compiled here, or elsewhere by the same lines: then MODELWHEEL_OBJECTS names the directory of the object file.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
# Its headers alone: it would look for a Python of its own, which need not be the one that the wheel is for.
set(PYBIND11_NOPYTHON ON)
find_package(pybind11 3.1 CONFIG REQUIRED)

set(BINDINGS_OPTIONS
  -Wall -Wextra -Wconversion -Wshadow -Wpedantic -O2
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
)
set(BINDINGS_OBJECT "module${CMAKE_CXX_OUTPUT_EXTENSION}")

if(MODELWHEEL_OBJECTS)
  add_library(bindings OBJECT IMPORTED)
  set_target_properties(bindings PROPERTIES IMPORTED_OBJECTS "${MODELWHEEL_OBJECTS}/${BINDINGS_OBJECT}")
else()
  add_library(bindings OBJECT src/bindings/module.cpp)
  target_include_directories(bindings PRIVATE src include)
  target_link_libraries(bindings PRIVATE Python::Module pybind11::headers)
  target_compile_options(bindings PRIVATE ${BINDINGS_OPTIONS})
  set_target_properties(bindings PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
endif()
