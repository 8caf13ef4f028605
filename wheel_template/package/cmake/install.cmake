# cmake/install.cmake - installs everything into the Python package, which is relocatable.
include(CMakePackageConfigHelpers)

set(MODEL_CMAKE_DIR lib/cmake/${MODEL_MODULE})
install(TARGETS ${MODEL_MODULE} EXPORT ${MODEL_MODULE} LIBRARY DESTINATION lib ARCHIVE DESTINATION lib RUNTIME DESTINATION .)
install(FILES "${MODEL_PLATFORM_DIR}/manifest.json" DESTINATION . RENAME _manifest.json)
if("cmssw" IN_LIST MODEL_INTERFACES)
  install(FILES package/tfaot-model-${MODEL_NAME}.xml DESTINATION share/scram)
endif()
if(NOT "c" IN_LIST MODEL_INTERFACES)
  return()
endif()
if(NOT "cpp" IN_LIST MODEL_INTERFACES)
  set(MODEL_LEFT_OUT PATTERN "*.hpp" EXCLUDE PATTERN "tfaot-model-*" EXCLUDE)
endif()
install(DIRECTORY include/ DESTINATION include ${MODEL_LEFT_OUT})

# find_package(model_digits) defines the target model_digits::model_digits.
install(EXPORT ${MODEL_MODULE}
  FILE ${MODEL_MODULE}-config.cmake
  NAMESPACE ${MODEL_MODULE}::
  DESTINATION ${MODEL_CMAKE_DIR}
)
write_basic_package_version_file(${MODEL_MODULE}-config-version.cmake
  VERSION ${MODEL_VERSION}
  COMPATIBILITY SameMajorVersion
)
install(FILES "${PROJECT_BINARY_DIR}/${MODEL_MODULE}-config-version.cmake" DESTINATION ${MODEL_CMAKE_DIR})
if(WIN32) # programs for Windows have no run-time search path
  set(MODEL_RUN_PATH "")
else()
  set(MODEL_RUN_PATH " -Wl,-rpath,\${libdir}")
endif()
configure_file(package/${MODEL_MODULE}.pc "${PROJECT_BINARY_DIR}/${MODEL_MODULE}.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/${MODEL_MODULE}.pc" DESTINATION lib/pkgconfig)
