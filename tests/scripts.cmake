# Tests that are scripts, or programs which a script starts and judges.

set(no_python "")
set(no_numpy "")
set(no_mpi "")
if(NOT rhizome_python)
    set(no_python "there is no python3")
endif()
if(NOT rhizome_numpy)
    set(no_numpy "there is no Python with NumPy")
endif()
if(NOT Ulfm_FOUND)
    set(no_mpi "there is no Open MPI with ULFM: ${Ulfm_REASON}")
elseif(no_python)
    set(no_mpi "${no_python}")
endif()

rhizome_script_test(tidy_test LABELS unit UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/tools/tidy_test.py)

rhizome_script_test(rhizome_program LABELS unit TIMEOUT 300 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/cli/rhizome_test.py
        $<TARGET_FILE:rhizome> ${PROJECT_SOURCE_DIR}/README.md "${RHIZOME_SANITIZE}")

rhizome_script_test(rhizome_generate_program LABELS unit TIMEOUT 300 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/cli/generate_test.py $<TARGET_FILE:rhizome>)

rhizome_script_test(rhizome_plan_program LABELS unit TIMEOUT 300 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/cli/rhizome_plan_test.py
        $<TARGET_FILE:rhizome-plan>)

add_executable(process_tree_stub tests/world/process_tree_stub.cpp)
target_link_libraries(process_tree_stub PRIVATE rhizome_flags rhizome_world)
rhizome_script_test(process_tree LABELS unit TIMEOUT 120 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/world/process_tree_test.py
        $<TARGET_FILE:process_tree_stub>)

set(no_safetensors "${no_numpy}")
if(NOT no_safetensors)
    execute_process(COMMAND ${rhizome_python} -c "import safetensors.numpy"
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
        set(no_safetensors "Python has no package safetensors")
    endif()
endif()
add_executable(safetensors_stub tests/state/safetensors_stub.cpp)
target_link_libraries(safetensors_stub PRIVATE rhizome_flags rhizome_state rhizome_model)
rhizome_script_test(safetensors LABELS unit TIMEOUT 120 UNLESS "${no_safetensors}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/state/safetensors_test.py
        $<TARGET_FILE:safetensors_stub>)

rhizome_script_test(golden_gpt_numpy LABELS unit TIMEOUT 300 UNLESS "${no_numpy}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/golden/gpt_numpy.py
        --check ${PROJECT_SOURCE_DIR}/tests/golden/gpt.txt)

if(Ulfm_FOUND)
    add_executable(ulfm_survives_test tests/mpi/ulfm_survives_test.cpp)
    target_link_libraries(ulfm_survives_test PRIVATE rhizome_flags rhizome_mpi Threads::Threads)
endif()
rhizome_script_test(ulfm_survives LABELS mpi UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/ulfm_survives_test.py
        $<TARGET_FILE:ulfm_survives_test> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

if(Ulfm_FOUND)
    add_executable(run_stub tests/mpi/run_stub.cpp)
    target_link_libraries(run_stub PRIVATE rhizome_flags rhizome_cli rhizome_mpi ${CMAKE_DL_LIBS})
endif()
rhizome_script_test(run_processes LABELS mpi failure TIMEOUT 300 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/run_test.py
        $<TARGET_FILE:run_stub> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})
rhizome_script_test(run_words LABELS mpi failure TIMEOUT 300 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/run_words_test.py
        $<TARGET_FILE:run_stub> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

if(Ulfm_FOUND)
    add_executable(world_test
        tests/mpi/world_test.cpp tests/mpi/world_calm_cases.cpp tests/mpi/world_loss_cases.cpp)
    target_link_libraries(world_test PRIVATE rhizome_flags rhizome_mpi_world rhizome_mpi)
    # Compares ways to drive MPI; docs/MPI.md has what came out.
    add_executable(progress_bench EXCLUDE_FROM_ALL tests/mpi/progress_bench.cpp)
    target_link_libraries(progress_bench PRIVATE rhizome_flags rhizome_world rhizome_mpi Threads::Threads)
endif()
rhizome_script_test(world_on_mpi LABELS mpi failure TIMEOUT 300 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/world_test.py
        $<TARGET_FILE:world_test> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

find_program(rhizome_spin spin NO_CACHE)
find_program(rhizome_gcc gcc NO_CACHE)
set(no_spin "${no_python}")
if(NOT rhizome_spin OR NOT rhizome_gcc)
    set(no_spin "there is no spin with a gcc to compile its searches")
elseif(RHIZOME_SANITIZE)
    set(no_spin "it runs nothing that is built here, once is enough")
endif()
rhizome_script_test(commit_model LABELS model TIMEOUT 600 UNLESS "${no_spin}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/model/check_commit.py)

if(Ulfm_FOUND)
    add_executable(layout_test tests/mpi/layout_test.cpp)
    target_compile_options(layout_test PRIVATE -O0 -g1)
    target_link_libraries(layout_test PRIVATE rhizome_flags rhizome_oracle rhizome_mpi_world)
endif()
rhizome_script_test(layouts_have_the_same_bits LABELS mpi TIMEOUT 600 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/layout_test.py
        pairs reference $<TARGET_FILE:layout_test> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})
set(no_layouts "${no_mpi}")
if(RHIZOME_SANITIZE AND NOT no_layouts)
    set(no_layouts "with sanitizers, one device is enough")
endif()
foreach(device cpu cpu-bf16)
    rhizome_script_test(layouts_have_the_same_bits_on_${device} LABELS mpi TIMEOUT 600 UNLESS "${no_layouts}"
        COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/layout_test.py
            pairs ${device} $<TARGET_FILE:layout_test> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})
endforeach()
rhizome_script_test(all_layouts_have_the_same_bits LABELS mpi slow TIMEOUT 3600 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/layout_test.py
        all reference $<TARGET_FILE:layout_test> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

# The same by the hundred, outside of the tests: `make chaos`, `make soak`.
if(no_mpi)
    string(REPLACE "'" "" chaos_reason "${no_mpi}")
    set(chaos_command "echo 'no ranks can be killed (${chaos_reason})'")
else()
    string(JOIN "\n" chaos_command "what=$1" "shift"
        "exec '${rhizome_python}' '${PROJECT_SOURCE_DIR}/tests/mpi/chaos.py' \"$what\" '$<TARGET_FILE:rhizome>' '${Ulfm_MPIRUN}' \"$@\"")
endif()
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/run-chaos CONTENT "#!/bin/sh\n${chaos_command}\n"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

rhizome_script_test(run_survives LABELS mpi failure TIMEOUT 900 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/survive_test.py
        $<TARGET_FILE:rhizome> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

rhizome_script_test(run_habits LABELS mpi failure TIMEOUT 300 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/habits_test.py
        $<TARGET_FILE:rhizome> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

rhizome_script_test(run_trains LABELS mpi failure TIMEOUT 600 UNLESS "${no_mpi}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/train_test.py
        $<TARGET_FILE:rhizome> ${Ulfm_MPIRUN} ${Ulfm_OPTIONS})

# Kills at a chosen operation on files; a sanitizer's runtime wants to be loaded first itself.
set(no_kills "${no_mpi}")
if(RHIZOME_SANITIZE)
    set(no_kills "a sanitizer's runtime allows nothing to be preloaded")
else()
    add_library(kill_at MODULE tests/support/kill_at.cpp)
    target_link_libraries(kill_at PRIVATE ${CMAKE_DL_LIBS})
endif()
rhizome_script_test(run_saves LABELS mpi failure TIMEOUT 900 UNLESS "${no_kills}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/mpi/save_test.py
        $<TARGET_FILE:rhizome> $<$<TARGET_EXISTS:kill_at>:$<TARGET_FILE:kill_at>>)

set(no_h5py "${no_python}")
if(rhizome_python AND NOT rhizome_h5py)
    set(no_h5py "there is no Python with h5py")
endif()
add_executable(state_stub tests/state/state_stub.cpp)
target_include_directories(state_stub PRIVATE tests)
target_link_libraries(state_stub PRIVATE rhizome_flags rhizome_state)
rhizome_script_test(states_in_h5py LABELS unit failure TIMEOUT 120 UNLESS "${no_h5py}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/state/read_with_h5py_test.py
        $<TARGET_FILE:state_stub>)

add_executable(logits_stub tests/cli/logits_stub.cpp)
target_link_libraries(logits_stub PRIVATE rhizome_flags rhizome_cli)
set(state_programs $<TARGET_FILE:rhizome-state> $<TARGET_FILE:rhizome> $<TARGET_FILE:state_stub>
    $<TARGET_FILE:safetensors_stub> $<TARGET_FILE:logits_stub>)
rhizome_script_test(rhizome_state_program LABELS unit TIMEOUT 300 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/cli/rhizome_state_test.py ${state_programs})
rhizome_script_test(states_of_runs LABELS unit TIMEOUT 300 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/cli/state_of_run_test.py ${state_programs})
