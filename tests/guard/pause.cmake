# Pausing instances, with the fake driver's book as the truth.

foreach(what steers from_inside new_channels orphan first_schedule ends preload)
  guard_test(pause_${what} --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/pause.sh ${what})
endforeach()

add_executable(fakecontrol fakecontrol.c)
set_target_properties(fakecontrol PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${out})
guard_test(control_replaced --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/control.sh)
