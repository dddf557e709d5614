# The loops of the cpu backend once more, for processors with AVX-512; which level runs is decided
# when the program runs (src/device/cpu_kernels.hpp). A build for such processors needs no second
# level, and one with sanitizers or without optimization would share code.
option(RHIZOME_LEVELS "Compile the cpu backend's loops for AVX-512 as well" ON)
if(RHIZOME_LEVELS AND RHIZOME_ARCHITECTURE STREQUAL "x86-64-v3" AND NOT RHIZOME_SANITIZE
   AND CMAKE_BUILD_TYPE MATCHES "^(RelWithDebInfo|Release)$")
    add_library(rhizome_device_v4 STATIC ${rhizome_level_sources})
    target_include_directories(rhizome_device_v4 PRIVATE src)
    target_link_libraries(rhizome_device_v4 PRIVATE rhizome_flags rhizome_core rhizome_device)
    # What x86-64-v4 adds; -march itself would have to stand behind that of rhizome_flags.
    target_compile_options(rhizome_device_v4 PRIVATE -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl)
    target_compile_definitions(rhizome_device_v4 PRIVATE RHIZOME_CPU_LEVEL=v4)
    add_custom_command(TARGET rhizome_device_v4 POST_BUILD
        COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:rhizome_device_v4>
            -P ${PROJECT_SOURCE_DIR}/cmake/expect_no_shared_code.cmake)
    target_compile_definitions(rhizome_device PRIVATE RHIZOME_CPU_HAS_V4)
    target_link_libraries(rhizome_device PUBLIC rhizome_device_v4)
endif()
