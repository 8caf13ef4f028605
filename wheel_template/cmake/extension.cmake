# cmake/extension.cmake - the Python extension: thin, and linked to the library that lies beside it.

set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 3 CONFIG REQUIRED)

pybind11_add_module(_core src/bindings.cpp)
target_include_directories(_core PRIVATE src)
target_link_libraries(_core PRIVATE ${MODEL_MODULE})
target_compile_definitions(_core PRIVATE MODELWHEEL_API=${MODEL_MODULE}_api)
target_compile_options(_core PRIVATE
  -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Os
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
)

if(APPLE)
  set_target_properties(_core PROPERTIES INSTALL_RPATH "@loader_path/lib")
elseif(UNIX)
  set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
  target_link_options(_core PRIVATE -Wl,--build-id=none -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now)
endif()
set_target_properties(_core PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
