# libtorch_cpu of the PyPI wheel as target torch::cpu, and its CUDA half, for libstoker_cuda.so
# alone, as torch::cuda.
#
# The wheel's include folder also holds protobuf 3.13 and fmt 12, which clash with
# the system's protobuf and with spdlog's fmt. A tree of symbolic links that
# leaves those two out is what the compiler sees.
if(NOT STOKER_PYTHON)
  message(FATAL_ERROR "STOKER_PYTHON is not set: pass the Python that has torch 2.11.0, "
    "as deploy/install.sh prints it, or -DSTOKER_TORCH=OFF")
endif()
execute_process(
  COMMAND ${STOKER_PYTHON} -c
    "import importlib.util as u, runpy as r, sys; from importlib.metadata import version; d = u.find_spec('torch').submodule_search_locations[0]; v = r.run_path(d + '/version.py'); t = (u.find_spec('triton') or u.find_spec('torch')).submodule_search_locations[0]; print(d, v['__version__'].split('+')[0], v['git_version'], v.get('cuda') or 'none', t, '%d.%d' % sys.version_info[:2], version('sympy'), sep=';', end='')"
  OUTPUT_VARIABLE torch_info RESULT_VARIABLE rc)
if(rc)
  message(FATAL_ERROR "${STOKER_PYTHON} has no torch: run deploy/install.sh")
endif()
list(GET torch_info 0 STOKER_TORCH_DIR)
list(GET torch_info 1 STOKER_TORCH_VERSION)
list(GET torch_info 2 STOKER_TORCH_GIT)
list(GET torch_info 3 STOKER_CUDA_VERSION)
list(GET torch_info 4 triton_dir)
list(GET torch_info 5 STOKER_PYTHON_VERSION)
list(GET torch_info 6 STOKER_SYMPY_VERSION)
# As Triton itself says it, read and not run: importing it takes a second.
file(STRINGS ${triton_dir}/__init__.py triton_line REGEX "^__version__")
string(REGEX MATCH "[0-9][0-9.]*" STOKER_TRITON_VERSION "${triton_line}")
if(NOT STOKER_TORCH_VERSION STREQUAL "2.11.0")
  message(FATAL_ERROR "torch 2.11.0 is needed, ${STOKER_PYTHON} has ${STOKER_TORCH_VERSION}")
endif()

set(torch_include ${CMAKE_BINARY_DIR}/torch_include)
file(MAKE_DIRECTORY ${torch_include})
file(GLOB entries RELATIVE ${STOKER_TORCH_DIR}/include ${STOKER_TORCH_DIR}/include/*)
foreach(entry IN LISTS entries)
  if(NOT entry MATCHES "^(google|fmt|nlohmann|gtest|gmock)$")
    file(CREATE_LINK ${STOKER_TORCH_DIR}/include/${entry} ${torch_include}/${entry} SYMBOLIC)
  endif()
endforeach()

add_library(torch_cpu INTERFACE)
add_library(torch::cpu ALIAS torch_cpu)
target_include_directories(torch_cpu SYSTEM INTERFACE
  ${torch_include} ${torch_include}/torch/csrc/api/include)
target_link_libraries(torch_cpu INTERFACE
  ${STOKER_TORCH_DIR}/lib/libtorch_cpu.so ${STOKER_TORCH_DIR}/lib/libc10.so
  ${STOKER_TORCH_DIR}/lib/libgomp.so.1
  # Behind libgomp, and there although nothing calls it: runner/openmp_wait.cc says why.
  -Wl,--push-state,--no-as-needed stoker_openmp -Wl,--pop-state)
target_link_options(torch_cpu INTERFACE
  -Wl,--disable-new-dtags
  -Wl,--allow-shlib-undefined)

# CUDA's headers and its runtime come with torch, but for crt/, which deploy/requirements.in adds.
# The driver is asked for through the runtime, so that nothing here needs one to link or to load.
set(cuda_wheel ${STOKER_TORCH_DIR}/../nvidia/cu13)
if(NOT EXISTS ${cuda_wheel}/include/crt/host_defines.h)
  message(FATAL_ERROR "${STOKER_PYTHON} lacks CUDA 13.0's headers: run deploy/install.sh")
endif()
add_library(torch_cuda INTERFACE)
add_library(torch::cuda ALIAS torch_cuda)
target_include_directories(torch_cuda SYSTEM INTERFACE ${cuda_wheel}/include)
target_link_libraries(torch_cuda INTERFACE
  torch::cpu
  ${STOKER_TORCH_DIR}/lib/libtorch_cuda.so ${STOKER_TORCH_DIR}/lib/libc10_cuda.so
  ${cuda_wheel}/lib/libcudart.so.13)
