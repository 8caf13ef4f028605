# cmake/kernels.cmake - kernels that take long to compile and are the same for all models: an object file for each CPU
# level of MODEL_LEVELS and each of MODEL_KERNELS, such as gemm_float.
#
# They are compiled here, or elsewhere by the same lines: then MODELWHEEL_KERNELS names the directory of the object files.
set(MODEL_OPTIONS
  -Wall -Wextra -Wconversion -Wshadow -Wpedantic
  -ffunction-sections -fdata-sections
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>
)
set(MODEL_KERNEL_TARGETS "") # those that are compiled here
set(MODEL_KERNEL_OBJECTS "")
set(MODEL_KERNEL_FILES "") # their names in MODELWHEEL_KERNELS

foreach(level IN LISTS MODEL_LEVELS)
  # Each level's files are compiled with the instructions of that level, as the machine code they call was. Fusing a
  # multiplication with an addition is what that machine code does too; everything else keeps IEEE semantics.
  # Functions begin with a line of the cache: their speed would depend on what is linked before, by up to 5 %.
  set(MODEL_LEVEL_OPTIONS_${level}
    -O3 -falign-functions=64 -ffp-contract=fast -fno-math-errno ${LEVEL_FLAGS_${level}})
  foreach(kernel IN LISTS MODEL_KERNELS)
    set(target ${PROJECT_NAME}_${kernel}_${level})
    set(file "${kernel}-${level}${CMAKE_CXX_OUTPUT_EXTENSION}")
    list(APPEND MODEL_KERNEL_FILES "${file}")
    list(APPEND MODEL_KERNEL_OBJECTS $<TARGET_OBJECTS:${target}>)
    if(MODELWHEEL_KERNELS)
      add_library(${target} OBJECT IMPORTED)
      set_target_properties(${target} PROPERTIES IMPORTED_OBJECTS "${MODELWHEEL_KERNELS}/${file}")
      continue()
    endif()
    string(REGEX MATCH "^(.+)_([a-z]+)$" name "${kernel}")
    set(source "${CMAKE_MATCH_1}")
    set(element "${CMAKE_MATCH_2}")
    file(GLOB path RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "src/kernels/*/${source}.cpp")
    add_library(${target} OBJECT "${path}")
    target_include_directories(${target} PRIVATE src)
    target_compile_definitions(${target} PRIVATE MODELWHEEL_LEVEL=${level} MODELWHEEL_ELEMENT=${element})
    target_compile_options(${target} PRIVATE ${MODEL_OPTIONS} ${MODEL_LEVEL_OPTIONS_${level}})
    if(source STREQUAL "gemm")
      target_compile_options(${target} PRIVATE -falign-loops=64) # its loops are short
    endif()
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
    list(APPEND MODEL_KERNEL_TARGETS ${target})
  endforeach()
endforeach()
