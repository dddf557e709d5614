# The engine's part of `make bench`: target bench-engine builds what it runs, and the script
# run-bench-engine in the build folder, made here because only CMake knows which MPI there is, runs it.
# Both are there without MPI as well; the script then says what is missing.

add_custom_target(bench-engine)
set(no_bench "")
if(NOT Ulfm_FOUND)
    set(no_bench "there is no Open MPI with ULFM: ${Ulfm_REASON}")
elseif(NOT rhizome_python)
    set(no_bench "there is no python3")
endif()

if(no_bench)
    string(REPLACE "'" "" no_bench "${no_bench}")
    set(bench_command "echo 'the engine is not measured (${no_bench})'")
else()
    add_executable(engine_bench EXCLUDE_FROM_ALL tests/mpi/engine_bench.cpp)
    target_include_directories(engine_bench PRIVATE tests)
    target_link_libraries(engine_bench PRIVATE rhizome_flags rhizome_engine rhizome_mpi_world rhizome_mpi)
    add_dependencies(bench-engine engine_bench rhizome)
    list(JOIN Ulfm_OPTIONS "' '" bench_options)
    set(bench_command "exec '${rhizome_python}' '${PROJECT_SOURCE_DIR}/tools/bench-engine' \"$1\" '$<TARGET_FILE:engine_bench>' '$<TARGET_FILE:rhizome>' '${Ulfm_MPIRUN}' '${bench_options}'")
endif()
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/run-bench-engine CONTENT "#!/bin/sh\n${bench_command}\n"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
