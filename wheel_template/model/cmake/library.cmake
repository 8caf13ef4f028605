# cmake/library.cmake - the model's library, SHARED or STATIC as MODEL_LINKAGE says: runtime, generated code, machine code, weights.

file(STRINGS "${MODEL_PLATFORM_DIR}/generated/kernels.txt" MODEL_KERNELS)
include(cmake/kernels.cmake)
file(GLOB MODEL_OBJECTS "${MODEL_PLATFORM_DIR}/objects/*.o")
set_source_files_properties(${MODEL_OBJECTS} PROPERTIES EXTERNAL_OBJECT TRUE)

add_library(${MODEL_MODULE} ${MODEL_LINKAGE}
  src/batching.cpp
  src/c_api.cpp
  src/cpu_level.cpp
  src/create.cpp
  src/expand.cpp
  src/model.cpp
  src/rules.cpp
  src/sentence.cpp
  src/staging.cpp
  src/state.cpp
  src/weights.c
  "${MODEL_PLATFORM_DIR}/generated/model_tables.cpp"
  ${MODEL_OBJECTS}
  ${MODEL_KERNEL_OBJECTS}
)
target_include_directories(${MODEL_MODULE}
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
  PRIVATE src
)
target_compile_definitions(${MODEL_MODULE} PRIVATE
  MODELWHEEL_BUILDING
  MODELWHEEL_PREFIX=${MODEL_MODULE}
  MODELWHEEL_HEADER="${MODEL_MODULE}.h"
)

foreach(level IN LISTS MODEL_LEVELS)
  set(source "${MODEL_PLATFORM_DIR}/generated/program_${level}.cpp")
  target_sources(${MODEL_MODULE} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES
    COMPILE_OPTIONS "${MODEL_LEVEL_OPTIONS_${level}}"
    COMPILE_DEFINITIONS MODELWHEEL_LEVEL=${level}
  )
endforeach()

# weights.c has the assembler include the file by a relative name: no path of this machine gets into the object.
set_source_files_properties(src/weights.c PROPERTIES
  COMPILE_DEFINITIONS "MODELWHEEL_WEIGHTS_FILE=\"${MODEL_WEIGHTS}\""
  INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}"
  OBJECT_DEPENDS "${PROJECT_SOURCE_DIR}/${MODEL_WEIGHTS}"
)

# The library uses only libc and libm. It is linked as C, so that it does not depend on the C++ library.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")
set_target_properties(${MODEL_MODULE} PROPERTIES
  LINKER_LANGUAGE C
  C_VISIBILITY_PRESET hidden
  CXX_VISIBILITY_PRESET hidden
)
target_compile_options(${MODEL_MODULE} PRIVATE ${MODEL_OPTIONS})
if(UNIX)
  target_link_libraries(${MODEL_MODULE} PRIVATE m)
endif()

# Only the model's own functions are visible from outside.
if(APPLE)
  set(exports "${PROJECT_BINARY_DIR}/exports.txt")
  file(WRITE "${exports}" "_${MODEL_MODULE}_*\n")
  target_link_options(${MODEL_MODULE} PRIVATE "-Wl,-exported_symbols_list,${exports}" -Wl,-dead_strip)
elseif(UNIX)
  set(exports "${PROJECT_BINARY_DIR}/exports.map")
  file(WRITE "${exports}" "{ global: ${MODEL_MODULE}_*; local: *; };\n")
  target_link_options(${MODEL_MODULE} PRIVATE
    "-Wl,--version-script=${exports}" -Wl,--no-undefined -Wl,--gc-sections -Wl,--build-id=none
    -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now -static-libgcc
  )
elseif(WIN32)
  # Exports are marked by dllexport. File names of DLLs do not depend on the C library.
  if(NOT MODEL_LINKAGE STREQUAL "STATIC")
    set_target_properties(${MODEL_MODULE} PROPERTIES PREFIX "" IMPORT_PREFIX "" IMPORT_SUFFIX .lib)
  endif()
  target_sources(${MODEL_MODULE} PRIVATE src/half.c)
  if(MINGW)
    target_sources(${MODEL_MODULE} PRIVATE src/mingw.c)
    target_link_options(${MODEL_MODULE} PRIVATE -Wl,--gc-sections -static-libgcc)
  else()
    target_compile_definitions(${MODEL_MODULE} PRIVATE _CRT_SECURE_NO_WARNINGS)
    target_link_options(${MODEL_MODULE} PRIVATE -Wl,/Brepro)
  endif()
endif()
