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
#     are macros; ALONE is a binary of its own in any case.
include_guard(GLOBAL)

# With STOKER_UNITY, up to ten files of a target are compiled as one: the headers are read and the
# templates compiled once for all of them, which is what most of a build from nothing goes into.
# For a build that is done once. When you edit, leave it off: a change compiles one file then.
# Two files of a target then share one unnamed namespace. Where they define the same name, rename.
function(merge_sources TARGET)
  if(STOKER_UNITY)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
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

# The suites that a test's files define, as a filter for GoogleTest.
function(suites_of FILTER)
  set(found)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} lines REGEX "^TEST(_F|_P)?\\(")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^TEST(_F|_P)?\\(([A-Za-z0-9_]+).*" "\\2.*:*/\\2.*" suite "${line}")
      list(APPEND found ${suite})
    endforeach()
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "no test in ${ARGN}")
  endif()
  list(REMOVE_DUPLICATES found)
  list(JOIN found ":" found)
  set(${FILTER} ${found} PARENT_SCOPE)
endfunction()

function(room_test)
  cmake_parse_arguments(ARG "ALONE" "ROOM;NAME;LABEL;TIMEOUT;UNDER_TEST" "SRCS;LIBS;DEFINES" ${ARGN})
  if(NOT ARG_UNDER_TEST)
    set(ARG_UNDER_TEST server::${ARG_ROOM})
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  list(TRANSFORM ARG_SRCS REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  set(target ${ARG_NAME})
  set(filter)
  if(STOKER_UNITY AND NOT ARG_ALONE)
    # Merged with the room's other tests; each file's suites still get a process of their own.
    set(target ${ARG_ROOM}_${ARG_LABEL}_tests)
    suites_of(filter ${ARG_SRCS})
    set(filter "--gtest_filter=${filter}")
  endif()
  if(NOT TARGET ${target})
    add_executable(${target})
    # What is tested is built as it is shipped; the tests themselves need no optimising, which
    # would take two fifths of their build.
    target_compile_options(${target} PRIVATE -O0)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/server)
    target_link_libraries(${target} PRIVATE ${ARG_UNDER_TEST}
      GTest::gmock GTest::gtest_main stoker_warnings)
    merge_sources(${target})
  endif()
  # Two tests may share a file of fakes.
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM ARG_SRCS ${sources})
  target_sources(${target} PRIVATE ${ARG_SRCS})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINES})
  add_test(NAME ${ARG_ROOM}.${ARG_NAME} COMMAND ${target} ${filter}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${ARG_ROOM}.${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
