# A room is one folder under server/: one static library, one door.
#
#   room(NAME tensor SRCS tensor.cc DEPS base LIBS absl::strings)
#     makes target server_tensor with alias server::tensor. DEPS are rooms, LIBS
#     third-party targets. List every source; no globbing.
#
#   room_test(ROOM tensor NAME shape_bucket_test SRCS shape_bucket_test.cc LABEL unit)
#     makes one GoogleTest binary, registered with ctest under LABEL
#     (unit: no torch, no sleep, no fixed port; grpc: runs a live server; torch: needs
#     libtorch; slow).
include_guard(GLOBAL)
include(GoogleTest)

function(room)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  set(target server_${ARG_NAME})
  add_library(${target} STATIC ${ARG_SRCS})
  add_library(server::${ARG_NAME} ALIAS ${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/server)
  list(TRANSFORM ARG_DEPS PREPEND server::)
  target_link_libraries(${target}
    PUBLIC ${ARG_DEPS} ${ARG_LIBS}
    PRIVATE ${ARG_PRIVATE_LIBS} stoker_warnings)
endfunction()

function(room_test)
  cmake_parse_arguments(ARG "" "ROOM;NAME;LABEL;TIMEOUT" "SRCS;LIBS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  # What is tested is built as it is shipped; the tests themselves need no optimising, which
  # would take two fifths of their build.
  target_compile_options(${ARG_NAME} PRIVATE -O0)
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/server)
  target_link_libraries(${ARG_NAME} PRIVATE server::${ARG_ROOM} ${ARG_LIBS}
    GTest::gmock GTest::gtest_main stoker_warnings)
  add_test(NAME ${ARG_ROOM}.${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${ARG_ROOM}.${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
