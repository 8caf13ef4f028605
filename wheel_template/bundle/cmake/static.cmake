# cmake/static.cmake - what a static library needs in addition to library.cmake. The Makefile does the same.

# Several models may be linked into one program, and the linker would take equal names for the same thing: each
# library has its own. Headers mark functions for a shared library on Windows unless MODELWHEEL_STATIC is defined.
target_compile_definitions(${MODEL_MODULE}
  PUBLIC MODELWHEEL_STATIC
  PRIVATE modelwheel=${MODEL_MODULE}_runtime modelwheel_weights=${MODEL_MODULE}_weights
    modelwheel_expanded_weights=${MODEL_MODULE}_expanded_weights
)
foreach(target IN LISTS MODEL_KERNEL_TARGETS)
  target_compile_definitions(${target} PRIVATE modelwheel=${MODEL_MODULE}_runtime)
endforeach()
if(MODEL_STATIC_ARENA)
  target_compile_definitions(${MODEL_MODULE} PRIVATE MODELWHEEL_STATIC_ARENA)
endif()

# The same bytes at any time and for any user: archives have neither.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT CMAKE_CROSSCOMPILING)
  set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_C_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
endif()
