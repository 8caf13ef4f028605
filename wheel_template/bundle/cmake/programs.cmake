# cmake/programs.cmake - the test, which compares the library with the outputs that the model had before it was compiled,
# and the benchmark. They are linked as C: the library needs no C++ library.
enable_testing()
foreach(program test benchmark)
  if(NOT EXISTS "${PROJECT_SOURCE_DIR}/tests/${MODEL_MODULE}_${program}.c") # package.gen_test, package.gen_benchmark
    continue()
  endif()
  add_executable(${MODEL_MODULE}_${program} tests/${MODEL_MODULE}_${program}.c)
  target_link_libraries(${MODEL_MODULE}_${program} PRIVATE ${MODEL_MODULE})
  set_target_properties(${MODEL_MODULE}_${program} PROPERTIES LINKER_LANGUAGE C)
endforeach()
if(TARGET ${MODEL_MODULE}_test)
  add_test(NAME ${MODEL_MODULE}_test COMMAND ${MODEL_MODULE}_test "${PROJECT_SOURCE_DIR}/tests/reference.bin")
endif()
