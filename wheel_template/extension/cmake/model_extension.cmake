# cmake/model_extension.cmake - the Python extension of the model: linked to the library beside it.
include(cmake/extension.cmake)

target_link_libraries(_core PRIVATE ${MODEL_MODULE} ${CMAKE_DL_LIBS})
if(WIN32)
  set(MODEL_LIBRARY "${MODEL_MODULE}.dll")
else()
  set(MODEL_LIBRARY "lib/lib${MODEL_MODULE}${CMAKE_SHARED_LIBRARY_SUFFIX}")
endif()
target_compile_definitions(_core PRIVATE
  MODELWHEEL_API=${MODEL_MODULE}_api
  MODELWHEEL_LIBRARY="${MODEL_LIBRARY}"
  MODELWHEEL_MODEL_VERSION="${MODEL_VERSION}"
)
if(APPLE)
  set_target_properties(_core PROPERTIES INSTALL_RPATH "@loader_path/lib")
elseif(UNIX)
  set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
endif()
set_target_properties(_core PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS _core LIBRARY DESTINATION .)
