# What gets installed where, and the Debian package:
#
#   cmake --install build/release --prefix /usr --component daemon
#   cpack --config build/release/CPackConfig.cmake -B build/release
#
# Components: `daemon`; `torch`, the libraries that it loads, which change with torch only;
# `compiler`, what compiles for it, given a Python that has torch; `host`, what systemd needs.
set_target_properties(stokerd PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/stoker")
install(TARGETS stokerd stokerctl RUNTIME DESTINATION bin COMPONENT daemon)
install(CODE "execute_process(
    COMMAND ${PROJECT_SOURCE_DIR}/deploy/torch_libraries.sh ${STOKER_PYTHON}
      \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/stoker
    COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT torch)
install(DIRECTORY compiler DESTINATION share/stoker USE_SOURCE_PERMISSIONS COMPONENT compiler
  FILES_MATCHING PATTERN "*.py" PATTERN "stoker-g++" PATTERN "artifact.map" PATTERN "__pycache__" EXCLUDE)
install(FILES deploy/systemd/stokerd.service DESTINATION lib/systemd/system COMPONENT host)
install(FILES deploy/systemd/stoker.sysusers DESTINATION lib/sysusers.d RENAME stoker.conf COMPONENT host)
install(FILES deploy/systemd/stoker.tmpfiles DESTINATION lib/tmpfiles.d RENAME stoker.conf COMPONENT host)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stoker)
set(CPACK_PACKAGE_VENDOR Stoker)
set(CPACK_PACKAGE_CONTACT "The maintainers of Stoker <maintainers@stoker.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Inference server for PyTorch programs")
set(CPACK_PACKAGE_DESCRIPTION
  "Serves what torch.export.save wrote over gRPC (KServe v2), compiles it once for each
shape, proves the result right and faster, and keeps it on disk. Compiling needs a
Python with torch ${STOKER_TORCH_VERSION}, which this package doesn't bring.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
# The libraries' packages, as the binaries need them; beside those, who makes the user and the folders.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${STOKER_TORCH_DIR}/lib ${STOKER_TORCH_DIR}/../nvidia/cu13/lib)
set(CPACK_DEBIAN_PACKAGE_DEPENDS
  "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/deploy/debian/postinst
  ${PROJECT_SOURCE_DIR}/deploy/debian/prerm
  ${PROJECT_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
