# cmake/extension.cmake - a thin Python extension, for one model or for all: src/bindings.cpp and the shared part.
include(cmake/bindings.cmake)

# Of the Python that the wheel is for, which need not be the one that CMake asks.
if(DEFINED SKBUILD_SOABI)
  set(Python_SOABI "${SKBUILD_SOABI}")
endif()
Python_add_library(_core MODULE WITH_SOABI src/bindings.cpp $<TARGET_OBJECTS:bindings>)
set_target_properties(_core PROPERTIES CXX_VISIBILITY_PRESET hidden)
target_include_directories(_core PRIVATE src include)
target_compile_options(_core PRIVATE ${BINDINGS_OPTIONS})
# For the threads that share the rows of a call: in a library of their own before glibc 2.34.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(_core PRIVATE Threads::Threads)

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
