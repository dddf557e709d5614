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

rhizome_script_test(rhizome_plan_program LABELS unit TIMEOUT 300 UNLESS "${no_python}"
    COMMAND ${rhizome_python} ${PROJECT_SOURCE_DIR}/tests/cli/rhizome_plan_test.py
        $<TARGET_FILE:rhizome-plan>)

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
