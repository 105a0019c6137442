# A room is one folder under server/: one static library, one door.
#
#   room(NAME tensor SRCS tensor.cc DEPS base LIBS absl::strings)
#     makes target server_tensor with alias server::tensor. DEPS are rooms, LIBS
#     third-party targets. List every source; no globbing.
#
#   room_test(ROOM tensor NAME shape_bucket_test SRCS shape_bucket_test.cc LABEL unit)
#     makes one GoogleTest binary, registered with ctest under LABEL
#     (unit: no torch, no sleep, no fixed port; grpc: runs a live server; torch: needs
#     libtorch; slow). UNDER_TEST is the target if it is no room; DEFINES
#     are macros.
include_guard(GLOBAL)

# With STOKER_UNITY, up to ten files of a target are compiled as one: the headers are read and the
# templates compiled once for all of them, which is what most of a build from nothing goes into.
# The preset `release` has it, so that what is measured is what is shipped. Who edits may turn it
# off in a build folder of his own: a change compiles one file then. Two files of a target share one
# unnamed namespace; where they define the same name, rename. Tests are never merged.
function(merge_sources TARGET)
  if(STOKER_UNITY)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
endfunction()

# A program that answers no requests: optimising it fully would take a quarter of its compile and
# give nobody anything. Not for a part of stokerd: the linker keeps one copy of each template, and it
# might be that part's.
function(seldom_run TARGET)
  target_compile_options(${TARGET} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endfunction()

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
  merge_sources(${target})
endfunction()

function(room_test)
  cmake_parse_arguments(ARG "" "ROOM;NAME;LABEL;TIMEOUT;UNDER_TEST" "SRCS;LIBS;DEFINES" ${ARGN})
  if(NOT ARG_UNDER_TEST)
    set(ARG_UNDER_TEST server::${ARG_ROOM})
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  # What is tested is built as it is shipped; the tests themselves need no optimising, which
  # would take two fifths of their build. Their files stay apart: they may call things alike.
  target_compile_options(${ARG_NAME} PRIVATE -O0)
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINES})
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/server)
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_UNDER_TEST} ${ARG_LIBS}
    GTest::gmock GTest::gtest_main stoker_warnings)
  add_test(NAME ${ARG_ROOM}.${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${ARG_ROOM}.${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
