# What gets installed where, and the Debian packages stoker and stoker-cuda:
#
#   cmake --install build/release --prefix /usr --component daemon
#   cpack --config build/release/CPackConfig.cmake -B build/release
#
# Components: `daemon`; `cuda`, its half that knows GPUs, without CUDA's libraries; `torch`, the
# libraries that it loads, which change with torch only; `compiler`, what compiles for it, given a Python
# that has torch; `host`, what systemd needs; `gpu_host`, what it and an administrator need for GPUs.
set_target_properties(stokerd PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/stoker")
install(TARGETS stokerd stokerctl stoker_openmp
  RUNTIME DESTINATION bin LIBRARY DESTINATION lib/stoker COMPONENT daemon)
set_target_properties(stoker_cuda PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS stoker_cuda LIBRARY DESTINATION lib/stoker COMPONENT cuda)
install(CODE "execute_process(
    COMMAND ${PROJECT_SOURCE_DIR}/deploy/packages/torch_libraries.sh ${STOKER_PYTHON}
      \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/stoker
    COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT torch)
install(DIRECTORY compiler DESTINATION share/stoker USE_SOURCE_PERMISSIONS COMPONENT compiler
  FILES_MATCHING PATTERN "*.py" PATTERN "stoker-g++" PATTERN "artifact.map" PATTERN "known_operators.txt" PATTERN "__pycache__" EXCLUDE)
install(FILES deploy/packages/systemd/stokerd.service DESTINATION lib/systemd/system COMPONENT host)
install(FILES deploy/packages/systemd/stoker.sysusers DESTINATION lib/sysusers.d RENAME stoker.conf COMPONENT host)
install(FILES deploy/packages/systemd/stoker.tmpfiles DESTINATION lib/tmpfiles.d RENAME stoker.conf COMPONENT host)
install(FILES deploy/packages/systemd/gpu.conf DESTINATION lib/systemd/system/stokerd.service.d COMPONENT gpu_host)
install(PROGRAMS deploy/packages/cuda_libraries.sh DESTINATION share/stoker COMPONENT gpu_host)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stoker)
set(CPACK_PACKAGE_VENDOR Stoker)
set(CPACK_PACKAGE_CONTACT "The maintainers of Stoker <maintainers@stoker.invalid>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
# CPack would give all packages one first line, if it were told of one.
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME stoker)
set(CPACK_DEBIAN_SERVER_DESCRIPTION
  "Inference server for PyTorch programs
Serves what torch.export.save wrote over gRPC (KServe v2), compiles it once for each
shape, proves the result right and faster, and keeps it on disk. Compiling needs a
Python with torch ${STOKER_TORCH_VERSION}, which this package doesn't bring.")
set(CPACK_DEBIAN_GPU_PACKAGE_NAME stoker-cuda)
set(CPACK_DEBIAN_GPU_DESCRIPTION
  "Inference server for PyTorch programs, on GPUs
Lets stokerd run models on NVIDIA's GPUs. The libraries that it needs of torch and CUDA
are in no Debian package: /usr/share/stoker/cuda_libraries.sh TORCH /usr/lib/stoker copies
them, 3 GB, from TORCH, the folder of torch ${STOKER_TORCH_VERSION} for CUDA 13.0 in a Python environment.
The driver has to be 580 or newer.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
# The libraries' packages, as the binaries need them; beside those, who makes the user and the folders.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${STOKER_TORCH_DIR}/lib ${STOKER_TORCH_DIR}/../nvidia/cu13/lib)
# libnghttp2 has the bounds on resets and CONTINUATION since that revision; what it is linked with says only 1.50.
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS
  "libnghttp2-14 (>= 1.52.0-1+deb12u3), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/deploy/packages/debian/postinst
  ${PROJECT_SOURCE_DIR}/deploy/packages/debian/prerm
  ${PROJECT_SOURCE_DIR}/deploy/packages/debian/postrm)
# Of this very build: stokerd opens no other. What it links beside CUDA's libraries, stokerd links as well.
set(CPACK_DEBIAN_GPU_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_GPU_PACKAGE_DEPENDS "stoker (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_GPU_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/deploy/packages/debian/cuda/postinst
  ${PROJECT_SOURCE_DIR}/deploy/packages/debian/cuda/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
foreach(component IN ITEMS daemon torch compiler host)
  cpack_add_component(${component} GROUP server)
endforeach()
foreach(component IN ITEMS cuda gpu_host)
  cpack_add_component(${component} GROUP gpu)
endforeach()
