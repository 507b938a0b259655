# Pausing instances, with the fake driver's book as the truth.

guard_test(pause_and_resume --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/pause.sh)

add_executable(fakecontrol fakecontrol.c)
set_target_properties(fakecontrol PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${out})
guard_test(control_replaced --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/control.sh)
